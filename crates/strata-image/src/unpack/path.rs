//! Paths of a layer, taken apart: relative, no `..`, no empty names.

use super::UnpackError;
use super::error::shown;

const MAX_NAME: usize = 255;

/// A path beneath the root: its directory, cleaned, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootedPath {
    bytes: Vec<u8>,
    name_at: usize,
}

impl RootedPath {
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

    /// The directory; empty when it is the root.
    pub(super) fn dir(&self) -> &[u8] {
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
        let path = RootedPath::parse(b"./a//b/./c/", 100).unwrap().unwrap();
        assert_eq!((path.dir(), path.name()), (&b"a/b"[..], &b"c"[..]));
        let top = RootedPath::parse(b"a", 100).unwrap().unwrap();
        assert_eq!((top.dir(), top.name()), (&b""[..], &b"a"[..]));
        assert_eq!(RootedPath::parse(b"./", 100).unwrap(), None);
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for path in [&b"/a"[..], b"../a", b"a/../b", b"a/..", b"..", b"", b"a\0b"] {
            assert!(
                RootedPath::parse(path, 100).is_err(),
                "{}",
                path.escape_ascii()
            );
        }
        assert!(RootedPath::parse(&[b'a'; 101], 100).is_err());
        assert!(RootedPath::parse(&[b'a'; 256], 4096).is_err());
    }

    proptest! {
        #[test]
        fn accepted_paths_stay_beneath_the_root(path in "[a./]{0,30}") {
            if let Ok(Some(path)) = RootedPath::parse(path.as_bytes(), 100) {
                for part in path.whole().split(|byte| *byte == b'/') {
                    prop_assert!(!matches!(part, b"" | b"." | b".."));
                }
            }
        }
    }
}
