//! Credentials in files: those that `docker login` and others write, and
//! passwords alone. Both must be for their owner alone, as a key must.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use strata_image::Credentials;

/// No configuration has more credentials than fit.
const MAX_BYTES: u64 = 1 << 20;

/// Why credentials could not be taken from a file. Never includes what is in
/// it.
#[derive(Debug, thiserror::Error)]
pub enum DockerConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others can read it.
    #[error("{} can be read by others: chmod 600 it", .0.display())]
    Public(PathBuf),
    /// Larger than any such file.
    #[error("{} is larger than {MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Not of that form.
    #[error("{} is not a configuration as `docker login` writes it: {at}", path.display())]
    Form {
        path: PathBuf,
        /// Where it breaks.
        at: String,
    },
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: HashMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// The `auths` of a file in the form of `~/.docker/config.json`, by registry.
/// Entries that a credential helper keeps elsewhere are passed over.
pub fn read_docker_config(path: &Path) -> Result<HashMap<String, Credentials>, DockerConfigError> {
    let text = read_secret(path)?;
    let form = |at: String| DockerConfigError::Form {
        path: path.to_owned(),
        at,
    };
    let config: Config = serde_json::from_str(&text)
        .map_err(|error| form(format!("line {} column {}", error.line(), error.column())))?;
    let mut credentials = HashMap::new();
    for (registry, auth) in config.auths {
        let found = match (auth.auth, auth.username, auth.password) {
            (Some(auth), ..) if !auth.is_empty() => {
                let broken = || {
                    form(format!(
                        "the auth of {registry} is not base64 of user:password"
                    ))
                };
                Some(decode(&auth).ok_or_else(broken)?)
            }
            (_, Some(user), Some(password)) => Some(Credentials { user, password }),
            _ => None,
        };
        if let Some(found) = found {
            credentials.insert(host(&registry), found);
        }
    }
    Ok(credentials)
}

/// The text of a file that is its owner's alone, without the line's end.
pub fn read_secret(path: &Path) -> Result<String, DockerConfigError> {
    let failed = |source| DockerConfigError::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(DockerConfigError::Public(path.to_owned()));
    }
    let mut text = String::new();
    let mut limited = file.take(MAX_BYTES + 1);
    limited.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(DockerConfigError::TooLarge(path.to_owned()));
    }
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

fn decode(auth: &str) -> Option<Credentials> {
    let bytes = BASE64_STANDARD.decode(auth.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// Old entries are addresses: `https://index.docker.io/v1/`.
fn host(registry: &str) -> String {
    let bare = registry
        .split_once("://")
        .map_or(registry, |(_, rest)| rest);
    let host = bare.split('/').next().unwrap_or(bare).to_ascii_lowercase();
    match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn entries_of_every_kind_are_read_by_host() {
        let text = r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "bWU6cDpx"},
            "r.lan:5000": {"username": "you", "password": "z"},
            "helper.io": {}
        }, "credsStore": "pass"}"#;
        let (_dir, path) = written(text, 0o600);
        let read = read_docker_config(&path).unwrap();
        assert_eq!(read.len(), 2);
        let hub = &read["docker.io"];
        assert_eq!((hub.user.as_str(), hub.password.as_str()), ("me", "p:q"));
        assert_eq!(read["r.lan:5000"].user, "you");
    }

    #[test]
    fn docker_config_must_be_private_and_errors_hide_secrets() {
        let (_dir, path) = written("{}", 0o644);
        let error = read_docker_config(&path).unwrap_err();
        assert!(matches!(error, DockerConfigError::Public(_)));
        for text in [
            r#"{"auths": {"r": {"auth": "hunter2!"}}}"#,
            r#"{"auths": "hunter2"}"#,
        ] {
            let (_dir, path) = written(text, 0o600);
            let error = read_docker_config(&path).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
