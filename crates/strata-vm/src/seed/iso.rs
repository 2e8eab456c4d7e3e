//! The least of ISO 9660 that a kernel mounts: one folder with a few files.
//! Their real names are in Rock Ridge fields, for the standard's own have no
//! small letters and no dashes. Standards: ECMA-119; SUSP and RRIP 1.12.

/// A sector.
const SECTOR: usize = 2048;
/// After 16 sectors that belong to nobody: descriptor, end of descriptors,
/// the table of folders in both byte orders, the one folder, the files.
const DESCRIPTOR: usize = 16;
const TABLE_LITTLE: usize = 18;
const TABLE_BIG: usize = 19;
const ROOT: usize = 20;
const FILES: usize = 21;
/// How long the table of folders is: one entry.
const TABLE_LENGTH: u32 = 10;

/// An image with this label and these files, few and with short names.
pub(super) fn image(label: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut next = FILES;
    let mut places = Vec::new();
    for (_, bytes) in files {
        places.push(next);
        next += bytes.len().div_ceil(SECTOR).max(1);
    }
    let mut image = vec![0; next * SECTOR];
    put(&mut image, DESCRIPTOR, &descriptor(label, next));
    put(&mut image, DESCRIPTOR + 1, b"\xffCD001\x01");
    put(
        &mut image,
        TABLE_LITTLE,
        &table((ROOT as u32).to_le_bytes(), [1, 0]),
    );
    put(
        &mut image,
        TABLE_BIG,
        &table((ROOT as u32).to_be_bytes(), [0, 1]),
    );
    put(&mut image, ROOT, &root(files, &places));
    for ((_, bytes), place) in files.iter().zip(places) {
        put(&mut image, place, bytes);
    }
    image
}

fn put(image: &mut [u8], sector: usize, bytes: &[u8]) {
    image[sector * SECTOR..][..bytes.len()].copy_from_slice(bytes);
}

fn descriptor(label: &str, sectors: usize) -> Vec<u8> {
    let mut out = b"\x01CD001\x01\0".to_vec();
    out.extend([b' '; 32]);
    out.extend(format!("{label:<32.32}").as_bytes());
    out.extend([0; 8]);
    out.extend(both32(sectors as u32));
    out.extend([0; 32]);
    for value in [1, 1, SECTOR as u16] {
        out.extend(both16(value));
    }
    out.extend(both32(TABLE_LENGTH));
    out.extend((TABLE_LITTLE as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend((TABLE_BIG as u32).to_be_bytes());
    out.extend([0; 4]);
    out.extend(record(&[0], ROOT, SECTOR, true, &[]));
    // Names of a set, a publisher and others, all empty.
    out.extend([b' '; 623]);
    // Four dates that nobody set.
    for _ in 0..4 {
        out.extend([b'0'; 16]);
        out.push(0);
    }
    out.push(1);
    out
}

/// The table of folders: the root, which is its own parent.
fn table(at: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    let mut out = vec![1, 0];
    out.extend(at);
    out.extend(parent);
    out.extend([0, 0]);
    out
}

fn root(files: &[(&str, &[u8])], places: &[usize]) -> Vec<u8> {
    // "Here begins Rock Ridge": on the first entry of the root.
    let sharing = b"SP\x07\x01\xbe\xef\0";
    let mut out = record(&[0], ROOT, SECTOR, true, sharing);
    out.extend(record(&[1], ROOT, SECTOR, true, &[]));
    for ((name, bytes), place) in files.iter().zip(places) {
        // Within eight letters, a dot and a version: as the standard wants.
        let letters = |c: &char| c.is_ascii_alphanumeric();
        let short: String = name.chars().filter(letters).take(8).collect();
        let short = format!("{}.;1", short.to_ascii_uppercase());
        let mut real = vec![b'N', b'M', 5 + name.len() as u8, 1, 0];
        real.extend(name.as_bytes());
        out.extend(record(short.as_bytes(), *place, bytes.len(), false, &real));
    }
    out
}

/// An entry of a folder; `extra` are Rock Ridge fields.
fn record(name: &[u8], place: usize, size: usize, folder: bool, extra: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend(both32(place as u32));
    out.extend(both32(size as u32));
    out.extend([0; 7]);
    out.push(if folder { 2 } else { 0 });
    out.extend([0, 0]);
    out.extend(both16(1));
    out.push(name.len() as u8);
    out.extend(name);
    out.resize(out.len().next_multiple_of(2), 0);
    out.extend(extra);
    out.resize(out.len().next_multiple_of(2), 0);
    out[0] = out.len() as u8;
    out
}

/// Numbers stand there twice, in both byte orders.
fn both32(value: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&value.to_le_bytes());
    out[4..].copy_from_slice(&value.to_be_bytes());
    out
}

fn both16(value: u16) -> [u8; 4] {
    let mut out = [0; 4];
    out[..2].copy_from_slice(&value.to_le_bytes());
    out[2..].copy_from_slice(&value.to_be_bytes());
    out
}
