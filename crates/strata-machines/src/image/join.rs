//! The configuration of one boot of a machine: the server to join, and with
//! what. A small archive of its own, because it has a secret in it and is
//! another each time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Archive;

/// Where a machine finds it. Its PID 1 reads it once and removes it.
pub const JOIN_FILE: &str = "/etc/strata/join.json";

/// Where a machine keeps the files of [`NodeImages`], in memory.
pub const IMAGES_DIRECTORY: &str = "/run/strata/images";

/// The server to join, and with what.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinFile {
    /// As the machine reaches it.
    pub server: String,
    /// Good for one join.
    pub token: String,
    pub name: String,
    /// What the node reports itself.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How the node reaches registries.
    #[serde(default)]
    pub images: NodeImages,
}

/// How a node reaches registries: what it is to have in its configuration, and
/// the files that this names.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeImages {
    /// The `[images]` section; empty for none.
    pub section: String,
    /// Files, by their names in [`IMAGES_DIRECTORY`]. Secrets are among them.
    pub files: BTreeMap<String, String>,
}

impl std::fmt::Debug for NodeImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.section)
    }
}

impl JoinFile {
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// An archive with it, to stand behind another.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = Archive::new(Vec::new());
        let bytes = serde_json::to_vec(self)?;
        archive.file(JOIN_FILE.trim_start_matches('/'), 0o600, &bytes)?;
        archive.finish()
    }
}

impl std::fmt::Debug for JoinFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} joins {}", self.name, self.server)
    }
}
