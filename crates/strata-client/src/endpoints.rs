//! `DIR/client/endpoints.json`: where the daemon of one data directory listens.
//! The daemon writes it once it serves; everything on the machine that was
//! given the data directory alone finds the daemon through it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::private_file;

/// Where the daemon listens. A role that does not run has no address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// The server, as `https://HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The node's TLS port, as `https://HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_socket: Option<PathBuf>,
}

impl Endpoints {
    const FILE: &str = "endpoints.json";

    /// The file in the `client` directory of a data directory.
    pub fn path(client_dir: &Path) -> PathBuf {
        client_dir.join(Self::FILE)
    }

    /// Reads what the daemon wrote; nothing when it never served.
    pub fn read(client_dir: &Path) -> Result<Option<Self>> {
        let path = Self::path(client_dir);
        private_file::read(&path)?
            .map(|text| {
                serde_json::from_str(&text).map_err(|why| Error::Damaged {
                    path,
                    reason: why.to_string(),
                })
            })
            .transpose()
    }

    /// Writes them, 0600, whole or not at all.
    pub fn write(&self, client_dir: &Path) -> Result<()> {
        let path = Self::path(client_dir);
        let mut text = serde_json::to_string(self).map_err(|why| Error::Damaged {
            path: path.clone(),
            reason: why.to_string(),
        })?;
        text.push('\n');
        private_file::write(&path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_come_back_and_absent_ones_stay_absent() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Endpoints::read(directory.path()).unwrap(), None);
        let written = Endpoints {
            server: None,
            node: Some("https://127.0.0.1:7710".into()),
            node_socket: Some("/run/strata/node.sock".into()),
        };
        written.write(directory.path()).unwrap();
        assert_eq!(Endpoints::read(directory.path()).unwrap(), Some(written));
        let text = std::fs::read_to_string(Endpoints::path(directory.path())).unwrap();
        assert!(!text.contains("server"));
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(Endpoints::path(directory.path()), "{").unwrap();
        let error = Endpoints::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("endpoints.json is damaged"), "{error}");
    }
}
