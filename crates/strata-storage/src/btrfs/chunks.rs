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

/// A copy of a chunk on a device, as long as the chunk: all profiles in use keep
/// whole copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// The start of its chunk, by which copies of the same are known.
    pub(crate) chunk: u64,
    pub(crate) device: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_data: bool,
}

const TREE: u64 = 3;
const OBJECT: u64 = 256;
const KIND: u32 = 228;
const KEY: usize = 104;
const HEADER: usize = 32;

impl Fs {
    /// All chunks that hold data.
    pub(crate) fn data_chunks(&self) -> Result<Vec<Chunk>, Errno> {
        let mut chunks: Vec<Chunk> = Vec::new();
        for stripe in self.stripes()?.into_iter().filter(|stripe| stripe.is_data) {
            match chunks.last_mut() {
                Some(chunk) if chunk.start == stripe.chunk => chunk.devices.push(stripe.device),
                _ => chunks.push(Chunk {
                    start: stripe.chunk,
                    bytes: stripe.bytes,
                    devices: vec![stripe.device],
                }),
            }
        }
        Ok(chunks)
    }

    /// What of the devices is given to chunks, by chunk.
    pub(crate) fn stripes(&self) -> Result<Vec<Stripe>, Errno> {
        let mut stripes = Vec::new();
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
                read(&search, at + HEADER, start, &mut stripes);
                at += HEADER + length;
                from = start + 1;
            }
            if count == 0 {
                return Ok(stripes);
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

    /// Writes a chunk again where there is most room.
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

/// Unlike what the kernel reports of itself, trees are little-endian; so are
/// all machines we build for.
fn read(search: &Bytes<4096>, at: usize, chunk: u64, stripes: &mut Vec<Stripe>) {
    const DATA: u64 = 1;
    const STRIPES: usize = 48;
    const STRIPE: usize = 32;
    let count = usize::from(u16::from_le_bytes(search.array(at + 44)));
    stripes.extend((0..count).map(|stripe| Stripe {
        chunk,
        device: search.get(at + STRIPES + stripe * STRIPE),
        offset: search.get(at + STRIPES + stripe * STRIPE + 8),
        bytes: search.get(at),
        is_data: search.get(at + 24) & DATA != 0,
    }));
}
