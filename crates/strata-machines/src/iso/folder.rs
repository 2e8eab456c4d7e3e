//! ISO 9660 itself: descriptors, the table of folders, the one folder.

use super::{CATALOGUE, FOLDER, SECTOR};

const TABLE_LITTLE: u32 = 19;
const TABLE_BIG: u32 = 20;
/// How long the table of folders is: one entry.
const TABLE_LENGTH: u32 = 10;

/// Everything before the catalogue: 22 sectors.
pub(super) fn head(sectors: u64, files: &[(&'static str, u64, u64)]) -> Vec<u8> {
    let mut image = vec![0; (CATALOGUE * SECTOR) as usize];
    let mut put = |sector: u64, bytes: &[u8]| {
        image[(sector * SECTOR) as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    put(16, &descriptor(sectors as u32));
    put(17, &super::torito::record(CATALOGUE as u32));
    put(18, b"\xffCD001\x01");
    let at = FOLDER as u32;
    put(TABLE_LITTLE.into(), &table(at.to_le_bytes(), [1, 0]));
    put(TABLE_BIG.into(), &table(at.to_be_bytes(), [0, 1]));
    let mut folder = entry(&[0], FOLDER, SECTOR, true);
    folder.extend(entry(&[1], FOLDER, SECTOR, true));
    for (name, place, size) in files {
        folder.extend(entry(name.as_bytes(), *place, *size, false));
    }
    put(FOLDER, &folder);
    image
}

fn descriptor(sectors: u32) -> Vec<u8> {
    let mut out = b"\x01CD001\x01\0".to_vec();
    out.extend([b' '; 32]);
    out.extend(format!("{:<32}", "STRATA").as_bytes());
    out.extend([0; 8]);
    out.extend(both32(sectors));
    out.extend([0; 32]);
    for value in [1, 1, SECTOR as u16] {
        out.extend(both16(value));
    }
    out.extend(both32(TABLE_LENGTH));
    out.extend(TABLE_LITTLE.to_le_bytes());
    out.extend([0; 4]);
    out.extend(TABLE_BIG.to_be_bytes());
    out.extend([0; 4]);
    out.extend(entry(&[0], FOLDER, SECTOR, true));
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

fn entry(name: &[u8], place: u64, size: u64, folder: bool) -> Vec<u8> {
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
