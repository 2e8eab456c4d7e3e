//! The header of a qcow2 file: as much of it as is needed to know what the
//! file would have QEMU do, and to write one for a copy-on-write disk.
//! The format: QEMU's docs/interop/qcow2.txt. All numbers are big-endian.

use super::{Backing, MAX_DISK_BYTES};

const MAGIC: [u8; 4] = *b"QFI\xfb";
/// Bits of what must be understood to read the image.
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
/// dirty, corrupt, data file, compression, extended entries.
const KNOWN: u64 = 0b1_1111;
/// The longest name of a backing file.
pub(super) const MAX_NAME: usize = 1023;
/// An extension with the format of the backing file.
const BACKING_FORMAT: u32 = 0xe279_2aca;
/// Version 3 has this many bytes before its extensions.
const LENGTH: usize = 104;

/// Clusters of 64 KiB, as QEMU makes them.
const CLUSTER_BITS: u32 = 16;
/// How many bytes of a disk one cluster of the lower table stands for.
const PER_TABLE: u64 = 1 << (CLUSTER_BITS * 2 - 3);

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file ends in it.
    #[error("its header is cut")]
    Cut,
    /// A version that is not 2 or 3.
    #[error("is of version {0}; 2 and 3 are known")]
    Version(u32),
    /// Something QEMU 7.2 does not know, either.
    #[error("needs features that are not known ({0:#x})")]
    Features(u64),
    /// QEMU has given it up.
    #[error("is marked as corrupt")]
    Corrupt,
    #[error("is encrypted, which is not supported")]
    Encrypted,
    /// A value outside of what the format allows.
    #[error("its {0} is out of bounds")]
    Bounds(&'static str),
    /// The name is not text.
    #[error("names a backing file that is not UTF-8")]
    Name,
}

/// The content of a header.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) size: u64,
    pub(super) backing: Option<Backing>,
    pub(super) has_data_file: bool,
}

impl Header {
    /// How much of a file is looked at. The header and the name it has must
    /// be in the first cluster, of which 2 MiB is the largest.
    pub(super) const READ: u64 = 2 << 20;

    /// How much is needed to see whether it is one at all.
    pub(super) const FIRST: u64 = 4096;

    /// Whether this may be the start of one.
    pub(super) fn may_begin(start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    /// Reads the start of a file; none when it is not qcow2.
    pub(crate) fn read(start: &[u8]) -> Result<Option<Self>, HeaderError> {
        if !Self::may_begin(start) {
            return Ok(None);
        }
        let version = u32_at(start, 4)?;
        let (features, length) = match version {
            2 => (0, 72),
            3 => (u64_at(start, 72)?, u32_at(start, 100)? as usize),
            _ => return Err(HeaderError::Version(version)),
        };
        if features & !KNOWN != 0 {
            return Err(HeaderError::Features(features & !KNOWN));
        }
        if features & CORRUPT != 0 {
            return Err(HeaderError::Corrupt);
        }
        if !(9..=21).contains(&u32_at(start, 20)?) {
            return Err(HeaderError::Bounds("size of clusters"));
        }
        if u32_at(start, 32)? != 0 {
            return Err(HeaderError::Encrypted);
        }
        if version == 3 && (length < LENGTH || length > start.len()) {
            return Err(HeaderError::Bounds("length"));
        }
        let size = u64_at(start, 24)?;
        if size > MAX_DISK_BYTES {
            return Err(HeaderError::Bounds("size"));
        }
        Ok(Some(Self {
            size,
            backing: read_backing(start, length)?,
            has_data_file: features & DATA_FILE != 0,
        }))
    }

    /// The start of a file for a disk of `size` that stands on a base: one
    /// cluster each of header, counts of references (two levels), and then
    /// the table of tables, which is empty. Also gives the file's length.
    pub(super) fn write(size: u64, base: Option<(&str, &str)>) -> (Vec<u8>, u64) {
        let cluster = 1u64 << CLUSTER_BITS;
        let entries = size.div_ceil(PER_TABLE).max(1);
        let clusters = 3 + (entries * 8).div_ceil(cluster);
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(3u32.to_be_bytes());
        let name_at = bytes.len();
        bytes.extend([0; 12]);
        bytes.extend(CLUSTER_BITS.to_be_bytes());
        bytes.extend(size.to_be_bytes());
        bytes.extend(0u32.to_be_bytes()); // not encrypted
        bytes.extend((entries as u32).to_be_bytes());
        bytes.extend((3 * cluster).to_be_bytes()); // the table of tables
        bytes.extend(cluster.to_be_bytes()); // the counts
        bytes.extend(1u32.to_be_bytes()); // in clusters
        bytes.extend([0; 12]); // no snapshots
        bytes.extend([0; 24]); // no features
        bytes.extend(4u32.to_be_bytes()); // counts of 16 bits
        bytes.extend((LENGTH as u32).to_be_bytes());
        if let Some((name, format)) = base {
            bytes.extend(BACKING_FORMAT.to_be_bytes());
            bytes.extend((format.len() as u32).to_be_bytes());
            bytes.extend(format.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend([0; 8]); // the end of extensions
            let offset = bytes.len() as u64;
            bytes[name_at..name_at + 8].copy_from_slice(&offset.to_be_bytes());
            let length = name.len() as u32;
            bytes[name_at + 8..name_at + 12].copy_from_slice(&length.to_be_bytes());
            bytes.extend(name.as_bytes());
        } else {
            bytes.extend([0; 8]);
        }
        bytes.resize(cluster as usize, 0);
        bytes.extend((2 * cluster).to_be_bytes());
        bytes.resize(2 * cluster as usize, 0);
        for _ in 0..clusters {
            bytes.extend(1u16.to_be_bytes());
        }
        (bytes, clusters * cluster)
    }
}

fn read_backing(start: &[u8], length: usize) -> Result<Option<Backing>, HeaderError> {
    let (offset, name_length) = (u64_at(start, 8)?, u32_at(start, 16)? as usize);
    // QEMU takes an offset of zero for "none"; a length alone is nothing.
    if offset == 0 {
        return Ok(None);
    }
    if name_length > MAX_NAME {
        return Err(HeaderError::Bounds("name of a backing file"));
    }
    let offset = usize::try_from(offset).map_err(|_| HeaderError::Cut)?;
    let name = part(start, offset, name_length)?;
    let name = str::from_utf8(name).map_err(|_| HeaderError::Name)?;
    Ok(Some(Backing {
        name: name.to_owned(),
        format: read_format(start, length)?,
    }))
}

/// Walks the extensions: kind, length, bytes filled up to eight.
fn read_format(start: &[u8], mut at: usize) -> Result<Option<String>, HeaderError> {
    loop {
        let (kind, length) = (u32_at(start, at)?, u32_at(start, at + 4)? as usize);
        match kind {
            0 => return Ok(None),
            BACKING_FORMAT if length <= 16 => {
                let format = part(start, at + 8, length)?;
                return Ok(Some(String::from_utf8_lossy(format).into_owned()));
            }
            _ => at = at + 8 + length.next_multiple_of(8),
        }
    }
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], HeaderError> {
    let end = at.checked_add(length).ok_or(HeaderError::Cut)?;
    bytes.get(at..end).ok_or(HeaderError::Cut)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, HeaderError> {
    let part = part(bytes, at, 4)?.try_into();
    part.map(u32::from_be_bytes).map_err(|_| HeaderError::Cut)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, HeaderError> {
    let part = part(bytes, at, 8)?.try_into();
    part.map(u64::from_be_bytes).map_err(|_| HeaderError::Cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn qcow2_header_round_trips() {
        let (bytes, length) = Header::write(1 << 40, Some(("/a/base.img", "raw")));
        let header = Header::read(&bytes).unwrap().unwrap();
        assert_eq!(header.size, 1 << 40);
        let backing = header.backing.unwrap();
        assert_eq!(backing.name, "/a/base.img");
        assert_eq!(backing.format.as_deref(), Some("raw"));
        assert!(!header.has_data_file);
        // 2048 entries of 8 bytes fit one cluster.
        assert_eq!(length, 4 << 16);
    }

    #[test]
    fn qcow2_header_without_backing_file_is_read() {
        let (bytes, _) = Header::write(1 << 20, None);
        assert_eq!(Header::read(&bytes).unwrap().unwrap().backing, None);
        assert!(Header::read(b"any other file").unwrap().is_none());
        assert!(Header::read(b"").unwrap().is_none());
    }

    #[test]
    fn untrusted_qcow2_header_is_refused() {
        let with = |at: usize, byte: u8| {
            let (mut bytes, _) = Header::write(1 << 20, Some(("/b", "raw")));
            bytes[at] = byte;
            Header::read(&bytes).map(drop)
        };
        assert_eq!(with(7, 4), Err(HeaderError::Version(4)));
        assert_eq!(with(79, 2), Err(HeaderError::Corrupt));
        assert_eq!(with(78, 1), Err(HeaderError::Features(1 << 8)));
        assert_eq!(with(35, 1), Err(HeaderError::Encrypted));
        assert_eq!(with(23, 30), Err(HeaderError::Bounds("size of clusters")));
        assert_eq!(with(24, 1), Err(HeaderError::Bounds("size")));
        assert_eq!(with(100, 1), Err(HeaderError::Bounds("length")));
        assert_eq!(with(8, 1), Err(HeaderError::Cut));
        assert_eq!(
            with(16, 1),
            Err(HeaderError::Bounds("name of a backing file"))
        );
        assert_eq!(
            Header::read(b"QFI\xfb\0\0").map(drop),
            Err(HeaderError::Cut)
        );
    }

    proptest! {
        #[test]
        fn no_header_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let length = bytes.len().min(4);
            bytes[..length].copy_from_slice(&MAGIC[..length]);
            if bytes.len() > 7 {
                bytes[4..8].copy_from_slice(&[0, 0, 0, 3]);
            }
            let _ = Header::read(&bytes);
        }

        #[test]
        fn a_byte_changed_anywhere_never_panics(at in 0usize..200, byte in any::<u8>()) {
            let (mut bytes, _) = Header::write(1 << 30, Some(("/some/base.qcow2", "qcow2")));
            bytes[at] = byte;
            let _ = Header::read(&bytes);
        }
    }
}
