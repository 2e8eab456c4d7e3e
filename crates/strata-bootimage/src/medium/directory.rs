//! ISO 9660 itself: descriptors, the table of directories, the one directory.

use super::{CATALOGUE, DIRECTORY, SECTOR};
use crate::iso9660::{Layout, record};

const TABLE_LITTLE: u32 = 19;
const TABLE_BIG: u32 = 20;

/// Everything before the catalogue: 22 sectors.
pub(super) fn head(sectors: u64, files: &[(&'static str, u64, u64)]) -> Vec<u8> {
    let mut image = vec![0; (CATALOGUE * SECTOR) as usize];
    let mut put = |sector: u64, bytes: &[u8]| {
        image[(sector * SECTOR) as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    let layout = Layout {
        sectors: sectors as u32,
        table_little: TABLE_LITTLE,
        table_big: TABLE_BIG,
        dir: DIRECTORY as u32,
    };
    put(16, &layout.descriptor("STRATA"));
    put(17, &super::torito::record(CATALOGUE as u32));
    put(18, b"\xffCD001\x01");
    for (sector, table) in layout.tables() {
        put(sector.into(), &table);
    }
    let mut directory = entry(&[0], DIRECTORY, SECTOR, true);
    directory.extend(entry(&[1], DIRECTORY, SECTOR, true));
    for (name, place, size) in files {
        directory.extend(entry(name.as_bytes(), *place, *size, false));
    }
    put(DIRECTORY, &directory);
    image
}

fn entry(name: &[u8], place: u64, size: u64, directory: bool) -> Vec<u8> {
    record(name, place as u32, size as u32, directory, &[])
}
