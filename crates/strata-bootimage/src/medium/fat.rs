//! A FAT image for UEFI: systemd's boot menu, one entry for it, the kernel and
//! its initramfs. All files lie one behind the other, so the tables are made
//! from their sizes alone and the contents stream. Each begins with a sector
//! of the CD, so that the CD's own directory can name them too: there is one copy.
//!
//! ```text
//! /EFI/BOOT/BOOTX64.EFI        the menu
//! /loader/entries/strata.conf  its one entry
//! /VMLINUZ, /INITRD
//! ```

use super::{IsoError, Part};

const BLOCK: u64 = 512;
/// FAT32, with clusters of one block, has at least so many of them: an image
/// with fewer would be read as FAT16.
const LEAST_CLUSTERS: u64 = 65525;
const RESERVED: u64 = 32;
/// Of those before the table: what is free, and a copy of the first.
const INFORMATION: u64 = 1;
const COPY: u64 = 6;
/// A sector of the CD, in blocks.
const SECTOR: u64 = 4;
const FIRST: u32 = 2;
const DIRECTORIES: u32 = 5;
const END: u32 = 0x0fff_ffff;
const IS_DIRECTORY: u8 = 0x10;

pub(super) struct Image<'a> {
    pub(super) menu: Part,
    pub(super) kernel: Part,
    pub(super) initrd: Vec<Part>,
    pub(super) command_line: &'a str,
}

/// An image, and where in it what is: bytes, and how many.
pub(super) struct Laid {
    pub(super) parts: Vec<Part>,
    pub(super) kernel: (u64, u64),
    pub(super) initrd: (u64, u64),
}

/// Clusters one behind the other.
struct Chain {
    first: u32,
    clusters: u64,
}

impl Image<'_> {
    /// The image as parts: its tables and directories, and the files behind them.
    pub(super) fn lay(self) -> Result<Laid, IsoError> {
        let conf = format!(
            "title Strata\nlinux /VMLINUZ\ninitrd /INITRD\noptions {}\n",
            self.command_line
        );
        let files = [
            vec![Part::Bytes(conf.into())],
            vec![self.menu],
            vec![self.kernel],
            self.initrd,
        ];
        let mut sizes = [0; 4];
        for (size, parts) in sizes.iter_mut().zip(&files) {
            for part in parts {
                *size += part.len()?;
            }
        }
        let tables = Tables::new(sizes)?;
        let mut parts = vec![Part::Bytes(tables.head().into())];
        for (file, size) in files.into_iter().zip(sizes) {
            parts.extend(file);
            parts.push(Part::Zeros(room(size) * BLOCK - size));
        }
        parts.push(Part::Zeros((tables.clusters - tables.used) * BLOCK));
        Ok(Laid {
            parts,
            kernel: (tables.place(2), sizes[2]),
            initrd: (tables.place(3), sizes[3]),
        })
    }
}

fn clusters(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).max(1)
}

/// The clusters of a file, and those that stay free behind it.
fn room(bytes: u64) -> u64 {
    clusters(bytes).next_multiple_of(SECTOR)
}

/// Where everything is.
struct Tables {
    sizes: [u64; 4],
    /// One cluster each: the root, EFI, BOOT, loader, entries.
    folders: Vec<Chain>,
    /// The entry, the menu, the kernel, the initramfs.
    files: Vec<Chain>,
    used: u64,
    clusters: u64,
}

impl Tables {
    fn new(sizes: [u64; 4]) -> Result<Self, IsoError> {
        let all: u64 = sizes.iter().sum();
        if u32::try_from(all).is_err() {
            return Err(IsoError::TooLarge(all));
        }
        let folders = (FIRST..FIRST + DIRECTORIES).map(|first| Chain { first, clusters: 1 });
        let folders = folders.collect();
        let mut used = u64::from(DIRECTORIES).next_multiple_of(SECTOR);
        let mut files = Vec::new();
        for size in sizes {
            let first = FIRST + used as u32;
            files.push(Chain {
                first,
                clusters: clusters(size),
            });
            used += room(size);
        }
        Ok(Self {
            sizes,
            folders,
            files,
            used,
            clusters: used.max(LEAST_CLUSTERS + 1),
        })
    }

    fn table_blocks(&self) -> u64 {
        let bytes = (self.clusters + u64::from(FIRST)) * 4;
        bytes.div_ceil(BLOCK).next_multiple_of(SECTOR)
    }

    /// Where a file begins in the image.
    fn place(&self, file: usize) -> u64 {
        let cluster = u64::from(self.files[file].first - FIRST);
        (RESERVED + self.table_blocks() + cluster) * BLOCK
    }

    /// The first sector, the table of clusters and the directories.
    fn head(&self) -> Vec<u8> {
        let table_blocks = self.table_blocks();
        let blocks = RESERVED + table_blocks + self.clusters;
        let boot_sector = boot_sector(blocks, table_blocks);
        let mut head = vec![0; (RESERVED * BLOCK) as usize];
        let information = information();
        for (place, sector) in [
            (0, &boot_sector),
            (INFORMATION, &information),
            (COPY, &boot_sector),
            (COPY + INFORMATION, &information),
        ] {
            head[(place * BLOCK) as usize..][..sector.len()].copy_from_slice(sector);
        }
        let chains = self.folders.iter().chain(&self.files);
        head.extend(table(chains, table_blocks));
        let [_, efi, boot, loader, entries] = [0, 1, 2, 3, 4].map(|n| self.folders[n].first);
        let file = |name: &[u8; 11], n: usize| record(name, 0, self.files[n].first, self.sizes[n]);
        let directory = |name: &[u8; 11], at: u32| record(name, IS_DIRECTORY, at, 0);
        let short = b"STRATA~1CON";
        let contents = [
            [
                directory(b"EFI        ", efi),
                directory(b"LOADER     ", loader),
                file(b"VMLINUZ    ", 2),
                file(b"INITRD     ", 3),
            ]
            .concat(),
            // The parent of what is in the root is written as 0.
            [dots(efi, 0), directory(b"BOOT       ", boot)].concat(),
            [dots(boot, efi), file(b"BOOTX64 EFI", 1)].concat(),
            [dots(loader, 0), directory(b"ENTRIES    ", entries)].concat(),
            [
                dots(entries, loader),
                long_name("strata.conf", short),
                file(short, 0),
            ]
            .concat(),
        ];
        for mut content in contents {
            content.resize(BLOCK as usize, 0);
            head.extend(content);
        }
        head.resize(self.place(0) as usize, 0);
        head
    }
}

/// How much is free, which is not needed of a CD.
fn information() -> Vec<u8> {
    let mut out = b"RRaA".to_vec();
    out.resize(484, 0);
    out.extend(b"rrAa");
    out.extend([0xff; 8]);
    out.resize(510, 0);
    out.extend([0x55, 0xaa]);
    out
}

fn boot_sector(blocks: u64, table_blocks: u64) -> Vec<u8> {
    let mut out = vec![0xeb, 0x58, 0x90];
    out.extend(b"STRATA  ");
    out.extend((BLOCK as u16).to_le_bytes());
    out.push(1);
    out.extend((RESERVED as u16).to_le_bytes());
    // One table; no entries of the root and no 16-bit number of blocks.
    out.extend([1, 0, 0, 0, 0, 0xf8, 0, 0]);
    out.extend([32, 0, 64, 0, 0, 0, 0, 0]);
    out.extend((blocks as u32).to_le_bytes());
    out.extend((table_blocks as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend(FIRST.to_le_bytes());
    out.extend((INFORMATION as u16).to_le_bytes());
    out.extend((COPY as u16).to_le_bytes());
    out.extend([0; 12]);
    out.extend([0x80, 0, 0x29, b'S', b'T', b'R', b'A']);
    out.extend(b"NO NAME    FAT32   ");
    out.resize(510, 0);
    out.extend([0x55, 0xaa]);
    out
}

fn table<'a>(chains: impl Iterator<Item = &'a Chain>, blocks: u64) -> Vec<u8> {
    let mut out = vec![0x0fff_fff8, END];
    for chain in chains {
        let last = chain.first + chain.clusters as u32 - 1;
        // What is unused, up to here, is free.
        out.resize(chain.first as usize, 0);
        out.extend((chain.first..last).map(|cluster| cluster + 1));
        out.push(END);
    }
    let mut out: Vec<u8> = out.into_iter().flat_map(u32::to_le_bytes).collect();
    out.resize((blocks * BLOCK) as usize, 0);
    out
}

fn record(name: &[u8; 11], kind: u8, cluster: u32, size: u64) -> Vec<u8> {
    let mut out = name.to_vec();
    out.push(kind);
    out.extend([0; 8]);
    out.extend(((cluster >> 16) as u16).to_le_bytes());
    out.extend([0; 4]);
    out.extend((cluster as u16).to_le_bytes());
    out.extend((size as u32).to_le_bytes());
    out
}

fn dots(own: u32, parent: u32) -> Vec<u8> {
    let own = record(b".          ", IS_DIRECTORY, own, 0);
    [own, record(b"..         ", IS_DIRECTORY, parent, 0)].concat()
}

/// A name of at most 13 letters, in the one record before that of its file.
fn long_name(name: &str, short: &[u8; 11]) -> Vec<u8> {
    let sum = short
        .iter()
        .fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut letters: Vec<u16> = name.encode_utf16().chain([0]).collect();
    letters.resize(13, 0xffff);
    let text = |range: std::ops::Range<usize>| {
        letters[range]
            .iter()
            .flat_map(|letter| letter.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut out = vec![0x41];
    out.extend(text(0..5));
    out.extend([0x0f, 0, sum]);
    out.extend(text(5..11));
    out.extend([0, 0]);
    out.extend(text(11..13));
    out
}
