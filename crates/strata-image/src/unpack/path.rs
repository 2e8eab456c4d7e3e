//! Paths of a layer, taken apart: relative, no `..`, no empty names.

use super::UnpackError;
use super::error::shown;

const MAX_NAME: usize = 255;

/// A path beneath the root: its folder, cleaned, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beneath {
    bytes: Vec<u8>,
    name_at: usize,
}

impl Beneath {
    /// Takes a path apart; none when it is the root itself.
    pub(super) fn parse(path: &[u8], limit: usize) -> Result<Option<Self>, UnpackError> {
        if path.len() > limit {
            return Err(UnpackError::PathTooLong {
                length: path.len(),
                limit,
            });
        }
        if path.starts_with(b"/") {
            return Err(UnpackError::Absolute(shown(path)));
        }
        if path.is_empty() || path.contains(&0) {
            return Err(UnpackError::Name(shown(path)));
        }
        let mut bytes = Vec::with_capacity(path.len());
        let mut name_at = 0;
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return Err(UnpackError::Outside(shown(path))),
                _ if part.len() > MAX_NAME => {
                    return Err(UnpackError::PathTooLong {
                        length: part.len(),
                        limit: MAX_NAME,
                    });
                }
                _ => {}
            }
            if !bytes.is_empty() {
                bytes.push(b'/');
            }
            name_at = bytes.len();
            bytes.extend_from_slice(part);
        }
        Ok((!bytes.is_empty()).then_some(Self { bytes, name_at }))
    }

    /// The folder; empty when it is the root.
    pub(super) fn folder(&self) -> &[u8] {
        self.bytes[..self.name_at]
            .strip_suffix(b"/")
            .unwrap_or_default()
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.bytes[self.name_at..]
    }

    pub(super) fn whole(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_cleaned_and_split() {
        let path = Beneath::parse(b"./a//b/./c/", 100).unwrap().unwrap();
        assert_eq!((path.folder(), path.name()), (&b"a/b"[..], &b"c"[..]));
        let top = Beneath::parse(b"a", 100).unwrap().unwrap();
        assert_eq!((top.folder(), top.name()), (&b""[..], &b"a"[..]));
        assert_eq!(Beneath::parse(b"./", 100).unwrap(), None);
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for path in [&b"/a"[..], b"../a", b"a/../b", b"a/..", b"..", b"", b"a\0b"] {
            assert!(
                Beneath::parse(path, 100).is_err(),
                "{}",
                path.escape_ascii()
            );
        }
        assert!(Beneath::parse(&[b'a'; 101], 100).is_err());
        assert!(Beneath::parse(&[b'a'; 256], 4096).is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_stays_beneath(path in "[a./]{0,30}") {
            if let Ok(Some(path)) = Beneath::parse(path.as_bytes(), 100) {
                for part in path.whole().split(|byte| *byte == b'/') {
                    prop_assert!(!matches!(part, b"" | b"." | b".."));
                }
            }
        }
    }
}
