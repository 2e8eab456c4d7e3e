//! What every image of ISO 9660 with a single directory has: its descriptor,
//! the table of directories, the entries of the directory. The caller decides
//! what is on it and where. Standard: ECMA-119.

pub(crate) const SECTOR: u32 = 2048;
/// How long the table of directories is: one entry.
const TABLE_LENGTH: u32 = 10;

/// Where things are, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// How many there are in all.
    pub(crate) sectors: u32,
    /// The table of directories, with the lesser byte of a number first.
    pub(crate) table_little: u32,
    /// The same with the greater first.
    pub(crate) table_big: u32,
    pub(crate) dir: u32,
}

impl Layout {
    /// What is in sector 16, and holds where the rest is.
    pub(crate) fn descriptor(&self, label: &str) -> Vec<u8> {
        let mut out = b"\x01CD001\x01\0".to_vec();
        out.extend([b' '; 32]);
        out.extend(format!("{label:<32.32}").as_bytes());
        out.extend([0; 8]);
        out.extend(both32(self.sectors));
        out.extend([0; 32]);
        for value in [1, 1, SECTOR as u16] {
            out.extend(both16(value));
        }
        out.extend(both32(TABLE_LENGTH));
        out.extend(self.table_little.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.table_big.to_be_bytes());
        out.extend([0; 4]);
        out.extend(record(&[0], self.dir, SECTOR, true, &[]));
        // Names of a set, a publisher and others, all empty.
        out.extend([b' '; 623]);
        // Four dates that are not set.
        for _ in 0..4 {
            out.extend([b'0'; 16]);
            out.push(0);
        }
        out.push(1);
        out
    }

    /// The two tables of directories, each with its sector: the root, which is its
    /// own parent.
    pub(crate) fn tables(&self) -> [(u32, Vec<u8>); 2] {
        let table = |at: [u8; 4], parent: [u8; 2]| {
            let mut out = vec![1, 0];
            out.extend(at);
            out.extend(parent);
            out.extend([0, 0]);
            out
        };
        [
            (self.table_little, table(self.dir.to_le_bytes(), [1, 0])),
            (self.table_big, table(self.dir.to_be_bytes(), [0, 1])),
        ]
    }
}

/// An entry of a directory; `extra` are Rock Ridge fields.
pub(crate) fn record(name: &[u8], place: u32, size: u32, dir: bool, extra: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend(both32(place));
    out.extend(both32(size));
    out.extend([0; 7]);
    out.push(if dir { 2 } else { 0 });
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
