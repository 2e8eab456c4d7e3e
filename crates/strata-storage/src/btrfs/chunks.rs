//! Where data lies: its chunks and the devices that have a copy, and moving
//! one of them.

use rustix::io::Errno;

use super::Fs;
use crate::sys::{self, Bytes};

/// A piece of data, on one or two devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) devices: Vec<u64>,
}

const TREE: u64 = 3;
const OBJECT: u64 = 256;
const KIND: u32 = 228;
const KEY: usize = 104;
const HEADER: usize = 32;

impl Fs {
    /// All chunks that hold data.
    pub(crate) fn data_chunks(&self) -> Result<Vec<Chunk>, Errno> {
        let mut chunks = Vec::new();
        let mut from = 0;
        loop {
            let mut search = Bytes::new()
                .with(0, TREE)
                .with(8, OBJECT)
                .with(16, OBJECT)
                .with(24, from)
                .with(32, u64::MAX)
                .with(48, u64::MAX)
                .with_u32(56, KIND)
                .with_u32(60, KIND)
                .with_u32(64, u32::MAX);
            sys::ioctl(&self.root, &sys::TREE_SEARCH, &mut search)?;
            let count = u32::from_ne_bytes(search.array(64));
            let mut at = KEY;
            for _ in 0..count {
                let start = search.get(at + 16);
                let length = u32::from_ne_bytes(search.array(at + 28)) as usize;
                chunks.extend(read(&search, at + HEADER, start));
                at += HEADER + length;
                from = start + 1;
            }
            if count == 0 {
                return Ok(chunks);
            }
        }
    }

    /// Gives back to the devices what chunks hold that use no more than so
    /// many hundredths of it; what they use is written to others.
    pub(crate) fn gather(&self, hundredths: u64) -> Result<(), Errno> {
        const DATA: u64 = 1;
        const USAGE: u64 = 1 << 1;
        const ARGUMENTS: usize = 16;
        let mut argument = Bytes::new()
            .with(0, DATA)
            .with(ARGUMENTS + 8, hundredths)
            .with(ARGUMENTS + 64, USAGE);
        sys::ioctl(&self.root, &sys::BALANCE_V2, &mut argument).map(drop)
    }

    /// Writes a chunk anew where there is most room.
    pub(crate) fn move_chunk(&self, chunk: &Chunk) -> Result<(), Errno> {
        const DATA: u64 = 1;
        const WITHIN: u64 = 1 << 4;
        const ARGUMENTS: usize = 16;
        let mut argument = Bytes::new()
            .with(0, DATA)
            .with(ARGUMENTS + 40, chunk.start)
            .with(ARGUMENTS + 48, chunk.start + 1)
            .with(ARGUMENTS + 64, WITHIN);
        sys::ioctl(&self.root, &sys::BALANCE_V2, &mut argument).map(drop)
    }
}

/// Unlike what the kernel tells of itself, trees are little-endian; so are all
/// machines we build for.
fn read(search: &Bytes<4096>, at: usize, start: u64) -> Option<Chunk> {
    const DATA: u64 = 1;
    const STRIPES: usize = 48;
    const STRIPE: usize = 32;
    let count = usize::from(u16::from_le_bytes(search.array(at + 44)));
    (search.get(at + 24) & DATA != 0).then(|| Chunk {
        start,
        bytes: search.get(at),
        devices: (0..count)
            .map(|stripe| search.get(at + STRIPES + stripe * STRIPE))
            .collect(),
    })
}
