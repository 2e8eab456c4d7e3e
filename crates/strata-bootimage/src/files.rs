//! The least of ISO 9660 that a kernel mounts: one directory with a few files.
//! Their real names are in Rock Ridge fields, for the standard's own have no
//! small letters and no dashes. Standards: ECMA-119; SUSP and RRIP 1.12.

use crate::iso9660::{self, Layout, record};

const SECTOR: usize = iso9660::SECTOR as usize;
/// After 16 unused sectors: descriptor, end of descriptors, the table of
/// directories in both byte orders, the one directory, the files.
const DESCRIPTOR: u32 = 16;
const TABLE_LITTLE: u32 = 18;
const TABLE_BIG: u32 = 19;
const ROOT: u32 = 20;
const FILES: usize = 21;

/// An image with this label and these files, few and with short names.
pub fn files_image(label: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut next = FILES;
    let mut places = Vec::new();
    for (_, bytes) in files {
        places.push(next);
        next += bytes.len().div_ceil(SECTOR).max(1);
    }
    let mut image = vec![0; next * SECTOR];
    let layout = Layout {
        sectors: next as u32,
        table_little: TABLE_LITTLE,
        table_big: TABLE_BIG,
        dir: ROOT,
    };
    put(&mut image, DESCRIPTOR, &layout.descriptor(label));
    put(&mut image, DESCRIPTOR + 1, b"\xffCD001\x01");
    for (sector, table) in layout.tables() {
        put(&mut image, sector, &table);
    }
    put(&mut image, ROOT, &root(files, &places));
    for ((_, bytes), place) in files.iter().zip(places) {
        put(&mut image, place as u32, bytes);
    }
    image
}

fn put(image: &mut [u8], sector: u32, bytes: &[u8]) {
    image[sector as usize * SECTOR..][..bytes.len()].copy_from_slice(bytes);
}

fn root(files: &[(&str, &[u8])], places: &[usize]) -> Vec<u8> {
    // "Here begins Rock Ridge": on the first entry of the root.
    let sharing = b"SP\x07\x01\xbe\xef\0";
    let mut out = record(&[0], ROOT, iso9660::SECTOR, true, sharing);
    out.extend(record(&[1], ROOT, iso9660::SECTOR, true, &[]));
    for ((name, bytes), place) in files.iter().zip(places) {
        // Within eight letters, a dot and a version: as the standard wants.
        let letters = |c: &char| c.is_ascii_alphanumeric();
        let short: String = name.chars().filter(letters).take(8).collect();
        let short = format!("{}.;1", short.to_ascii_uppercase());
        let mut real = vec![b'N', b'M', 5 + name.len() as u8, 1, 0];
        real.extend(name.as_bytes());
        out.extend(record(
            short.as_bytes(),
            *place as u32,
            bytes.len() as u32,
            false,
            &real,
        ));
    }
    out
}
