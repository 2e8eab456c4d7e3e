//! How a root is limited, as one line in its directory: found again after a
//! restart, also when the file system would now be limited in another way.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{Roots, check};
use crate::RootError;

const FILE: &str = "limit";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// A file system in a file.
    Image { bytes: u64 },
    /// A btrfs subvolume with this number.
    Subvolume { bytes: u64, id: u64 },
    /// A project with this id.
    Project { bytes: u64, id: u32 },
}

impl Limit {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Image { bytes } | Self::Subvolume { bytes, .. } | Self::Project { bytes, .. } => {
                bytes
            }
        }
    }

    pub(super) fn write(self, dir: &Path) -> Result<(), RootError> {
        let text = match self {
            Self::Image { bytes } => format!("image {bytes}\n"),
            Self::Subvolume { bytes, id } => format!("subvolume {bytes} {id}\n"),
            Self::Project { bytes, id } => format!("project {bytes} {id}\n"),
        };
        let path = dir.join(FILE);
        fs::write(&path, text).map_err(RootError::at("write", &path))
    }

    pub(super) fn read(dir: &Path) -> Result<Option<Self>, RootError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(RootError::at("read", &path))?,
        };
        match Self::parse(&text) {
            Some(limit) => Ok(Some(limit)),
            None => Err(RootError::BadRecord { path, text }),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.strip_suffix('\n')?.split(' ').collect();
        match words[..] {
            ["image", bytes] => Some(Self::Image {
                bytes: bytes.parse().ok()?,
            }),
            ["subvolume", bytes, id] => Some(Self::Subvolume {
                bytes: bytes.parse().ok()?,
                id: id.parse().ok()?,
            }),
            ["project", bytes, id] => Some(Self::Project {
                bytes: bytes.parse().ok()?,
                id: id.parse().ok()?,
            }),
            _ => None,
        }
    }
}

impl Roots {
    pub(super) fn limit_of(&self, id: &str) -> Result<Option<Limit>, RootError> {
        check(id)?;
        Limit::read(&self.root_dir(id))
    }
}
