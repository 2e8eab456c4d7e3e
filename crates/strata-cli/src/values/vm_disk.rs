//! A further disk of a virtual machine: `10GiB` is an empty one,
//! `/srv/data.qcow2` a clone of an image, with `:ro` the image as it is,
//! `pool=data` a volume of the storage pool.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1::VmDisk;

use super::{Bytes, absolute, label_name};

/// One `--disk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum VmDiskArg {
    /// Nothing is on it yet.
    Empty(Bytes),
    /// A clone of an image of the node's machine.
    Image { path: String, read_only: bool },
    /// A volume of the storage pool.
    Pool { name: String, read_only: bool },
}

impl VmDiskArg {
    /// As it stands on the wire.
    pub(crate) fn from_wire(disk: &VmDisk) -> Self {
        if !disk.pool.is_empty() {
            return Self::Pool {
                name: disk.pool.clone(),
                read_only: disk.read_only,
            };
        }
        if disk.image.is_empty() {
            return Self::Empty(Bytes(disk.bytes));
        }
        Self::Image {
            path: disk.image.clone(),
            read_only: disk.read_only,
        }
    }

    /// As it is sent.
    pub(crate) fn into_wire(self) -> VmDisk {
        match self {
            Self::Empty(Bytes(bytes)) => VmDisk {
                bytes,
                ..Default::default()
            },
            Self::Image { path, read_only } => VmDisk {
                image: path,
                read_only,
                ..Default::default()
            },
            Self::Pool { name, read_only } => VmDisk {
                pool: name,
                read_only,
                ..Default::default()
            },
        }
    }
}

impl FromStr for VmDiskArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().map(Self::Empty).map_err(|why| {
                format!("{why}; a file whose name begins with a digit is ./{text}")
            });
        }
        let (path, read_only) = match text.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (text, false),
        };
        if let Some(name) = path.strip_prefix("pool=") {
            return Ok(Self::Pool {
                name: label_name(name)?,
                read_only,
            });
        }
        Ok(Self::Image {
            path: absolute(path)?,
            read_only,
        })
    }
}

impl fmt::Display for VmDiskArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(size) => size.fmt(f),
            Self::Image { path, read_only } => {
                write!(f, "{path}{}", if *read_only { ":ro" } else { "" })
            }
            Self::Pool { name, read_only } => {
                write!(f, "pool={name}{}", if *read_only { ":ro" } else { "" })
            }
        }
    }
}

impl TryFrom<String> for VmDiskArg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<VmDiskArg> for String {
    fn from(disk: VmDiskArg) -> Self {
        disk.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_an_empty_disk_and_a_path_an_image() {
        for text in [
            "10GiB",
            "/srv/data.qcow2",
            "/srv/data.raw:ro",
            "pool=data",
            "pool=data:ro",
        ] {
            let disk: VmDiskArg = text.parse().unwrap();
            assert_eq!(disk.to_string(), text);
            assert_eq!(VmDiskArg::from_wire(&disk.clone().into_wire()), disk);
        }
        assert!("10lots".parse::<VmDiskArg>().is_err());
        assert!("".parse::<VmDiskArg>().is_err());
        assert!("pool=A".parse::<VmDiskArg>().is_err());
    }
}
