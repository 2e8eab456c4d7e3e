//! Which files a cell sees: `host`, `read-only`, `private`, or a directory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1::{CellOptions, RootMode};

/// The root of a cell, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Root {
    #[default]
    Host,
    ReadOnly,
    Private,
    Folder(String),
}

impl Root {
    /// As it stands in the options of a cell.
    pub(crate) fn from_wire(options: &CellOptions) -> Self {
        match options.root() {
            RootMode::Host => Self::Host,
            RootMode::ReadOnly => Self::ReadOnly,
            RootMode::Private => Self::Private,
            RootMode::Folder => Self::Folder(options.root_folder.clone()),
        }
    }

    /// Puts it into the options of a cell.
    pub(crate) fn into_wire(self, options: &mut CellOptions) {
        let (mode, directory) = match self {
            Self::Host => (RootMode::Host, String::new()),
            Self::ReadOnly => (RootMode::ReadOnly, String::new()),
            Self::Private => (RootMode::Private, String::new()),
            Self::Folder(directory) => (RootMode::Folder, directory),
        };
        options.set_root(mode);
        options.root_folder = directory;
    }
}

impl FromStr for Root {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "host" => Ok(Self::Host),
            "read-only" => Ok(Self::ReadOnly),
            "private" => Ok(Self::Private),
            directory if directory.starts_with('/') => Ok(Self::Folder(directory.to_owned())),
            _ => Err(format!(
                "{text:?} is not a root; use host, read-only, private or the absolute path of a directory"
            )),
        }
    }
}

impl TryFrom<String> for Root {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Root> for String {
    fn from(root: Root) -> Self {
        root.to_string()
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::ReadOnly => "read-only",
            Self::Private => "private",
            Self::Folder(directory) => directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_root_comes_back_from_the_wire() {
        for text in ["host", "read-only", "private", "/srv/root"] {
            let root: Root = text.parse().unwrap();
            let mut options = CellOptions::default();
            root.clone().into_wire(&mut options);
            assert_eq!(Root::from_wire(&options), root);
            assert_eq!(root.to_string(), text);
        }
        assert!("srv".parse::<Root>().is_err());
    }
}
