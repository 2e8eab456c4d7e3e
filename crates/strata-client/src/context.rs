//! Saved logins: `~/.config/strata/config.toml`, 0600. A context names a
//! server and holds the proof for it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::private_file;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The server, as `https://HOST:PORT`.
    pub server: String,
    /// The directory with `{ca.crt,client.crt,client.key}`, where a certificate
    /// is the proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// The API token, where a token is the proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The CA that signed the server's certificate, in PEM; goes with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("server", &self.server)
            .field("credentials", &self.credentials)
            .field("token", &self.token.as_ref().map(|_| "(secret)"))
            .finish_non_exhaustive()
    }
}

/// Every saved login, and the one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contexts {
    /// The name of the one in use.
    #[serde(default)]
    pub current: String,
    /// All of them by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file; no logins when there is none.
    pub fn read(file: &Path) -> Result<Self> {
        match private_file::read(file)? {
            None => Ok(Self::default()),
            Some(text) => toml::from_str(&text).map_err(|why| Error::Damaged {
                path: file.to_owned(),
                reason: why.message().to_owned(),
            }),
        }
    }

    /// Writes the file, 0600, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|why| Error::Damaged {
            path: file.to_owned(),
            reason: why.to_string(),
        })?;
        private_file::write(file, text.as_bytes())
    }

    /// The login in use.
    pub fn current(&self) -> Option<&Context> {
        self.contexts.get(&self.current)
    }

    /// Keeps a login under `name` and uses it from now on.
    pub fn use_context(&mut self, name: impl Into<String>, context: Context) {
        self.current = name.into();
        self.contexts.insert(self.current.clone(), context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_login_is_the_one_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("strata/config.toml");
        let mut contexts = Contexts::read(&file).unwrap();
        assert!(contexts.current().is_none());
        for server in ["https://a:1", "https://b:2"] {
            let context = Context {
                server: server.into(),
                credentials: None,
                token: Some("secret-token".into()),
                ca_pem: None,
            };
            contexts.use_context(server, context);
        }
        contexts.write(&file).unwrap();
        let read = Contexts::read(&file).unwrap();
        assert_eq!(read, contexts);
        assert_eq!(read.current().unwrap().server, "https://b:2");
        assert!(!format!("{read:?}").contains("secret-token"));
    }
}
