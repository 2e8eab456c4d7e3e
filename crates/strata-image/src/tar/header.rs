//! The 512-byte header block.

use super::{Kind, TarError};

pub(super) const BLOCK: usize = 512;
pub(super) type Block = [u8; BLOCK];

/// The content of a header, before anything in front of it overrides it.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) flag: u8,
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) device: (u32, u32),
}

impl Header {
    pub(super) fn parse(block: &Block) -> Result<Self, TarError> {
        check_sum(block)?;
        let gnu = &block[257..265] == b"ustar  \0";
        let posix = &block[257..262] == b"ustar" && !gnu;
        let name = text(&block[..100]);
        // Only POSIX has a prefix; GNU keeps times and sparse maps there.
        let prefix = if posix { text(&block[345..500]) } else { b"" };
        let path = if prefix.is_empty() {
            name.to_vec()
        } else {
            [prefix, b"/", name].concat()
        };
        let flag = block[156];
        let is_device = matches!(flag, b'3' | b'4');
        let device = |range, what| {
            if is_device {
                small(&block[range], what)
            } else {
                Ok(0)
            }
        };
        Ok(Self {
            flag,
            path,
            link: text(&block[157..257]).to_vec(),
            mode: small(&block[100..108], "mode")?,
            uid: unsigned(&block[108..116], "uid")?,
            gid: unsigned(&block[116..124], "gid")?,
            size: unsigned(&block[124..136], "size")?,
            mtime: number(&block[136..148], "mtime")?,
            device: (device(329..337, "devmajor")?, device(337..345, "devminor")?),
        })
    }

    /// The kind of a plain entry with this path; those that extend the next
    /// one have none. The path is the entry's own, long names and PAX records
    /// applied: the header's field is cut at 100 bytes, perhaps behind a slash.
    pub(super) fn kind(&self, path: &[u8]) -> Result<Kind, TarError> {
        Ok(match self.flag {
            // Before POSIX a directory was a file with a slash behind it.
            b'\0' if path.ends_with(b"/") => Kind::Directory,
            b'\0' | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' => Kind::CharDevice,
            b'4' => Kind::BlockDevice,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => return Err(TarError::Kind(other.into())),
        })
    }
}

/// The sum of all bytes with the field itself as spaces; some old writers
/// summed signed bytes.
fn check_sum(block: &Block) -> Result<(), TarError> {
    let expected = number(&block[148..156], "checksum").map_err(|_| TarError::Checksum)?;
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (at, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&at) {
            b' '
        } else {
            *byte
        };
        unsigned += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    if expected == unsigned || expected == signed {
        Ok(())
    } else {
        Err(TarError::Checksum)
    }
}

/// Up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits, or two's complement behind a set first bit (GNU, for what
/// octal digits cannot hold).
pub(super) fn number(field: &[u8], what: &'static str) -> Result<i64, TarError> {
    let refuse = || TarError::Number(what);
    let first = *field.first().ok_or_else(refuse)?;
    if first & 0x80 != 0 {
        let negative = first & 0x40 != 0;
        let mut value = if negative { -1_i128 } else { 0 };
        for (at, byte) in field.iter().enumerate() {
            let byte = if at == 0 && !negative {
                byte & 0x7f
            } else {
                *byte
            };
            value = value << 8 | i128::from(byte);
        }
        return i64::try_from(value).map_err(|_| refuse());
    }
    let digits = text(field).trim_ascii();
    let mut value = 0_i64;
    for digit in digits {
        if !(b'0'..=b'7').contains(digit) {
            return Err(refuse());
        }
        value = value.checked_mul(8).ok_or_else(refuse)? + i64::from(digit - b'0');
    }
    Ok(value)
}

pub(super) fn unsigned(field: &[u8], what: &'static str) -> Result<u64, TarError> {
    u64::try_from(number(field, what)?).map_err(|_| TarError::Number(what))
}

fn small(field: &[u8], what: &'static str) -> Result<u32, TarError> {
    u32::try_from(number(field, what)?).map_err(|_| TarError::Number(what))
}
