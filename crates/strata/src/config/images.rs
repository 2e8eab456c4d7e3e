//! The `[images]` section: registries, credentials, local files, disk space.
//!
//! ```toml
//! [images]
//! plain_http = ["registry.lan:5000"]
//! authorities = ["/etc/strata/registry-ca.pem"]
//! docker_config = "/root/.docker/config.json"
//! docker_config_projects = ["shop"]
//! local_folders = ["/srv/images"]
//! high_water = 85
//! low_water = 80
//! parallel_pulls = 8
//!
//! [images.registries."registry.lan:5000"]
//! user = "strata"
//! password_file = "/etc/strata/registry.password"
//! projects = ["shop"]
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use strata_node::images::{Credentials, ImagesConfig, read_docker_config, read_secret};

/// How the node deals with images.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImagesTable {
    /// Registries (HOST or HOST:PORT) that may be spoken to without TLS.
    #[serde(default)]
    plain_http: Vec<String>,
    /// PEM files of certificate authorities that registries are trusted by,
    /// beside those of the system.
    #[serde(default)]
    authorities: Vec<PathBuf>,
    /// A file as `docker login` writes it, whose `auths` are used; its owner
    /// alone may read it. What is named under `registries` wins.
    docker_config: Option<PathBuf>,
    /// Projects whose instances may be of images that these credentials open,
    /// beside the default one; `*` for all.
    #[serde(default)]
    docker_config_projects: Vec<String>,
    /// Credentials by registry (HOST or HOST:PORT; Docker Hub is docker.io).
    #[serde(default)]
    registries: BTreeMap<String, RegistryTable>,
    /// Folders below which operators may pull `oci:` and `docker-archive:`
    /// files of this machine. Admins may everywhere.
    #[serde(default)]
    local_folders: Vec<PathBuf>,
    /// When the disk of the images is fuller than this, in percent, unused
    /// images are removed, the least recently used first; 85 unless told, 100
    /// for never.
    high_water: Option<u8>,
    /// Until it is no fuller than this; 80 unless told, below the high one.
    low_water: Option<u8>,
    /// How many pulls run at once, 1 to 64; 8 unless told. More wait.
    parallel_pulls: Option<usize>,
}

/// Who we are to a registry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryTable {
    user: String,
    /// The password or token itself; then this file is a secret.
    password: Option<Secret>,
    /// A file that holds it; its owner alone may read it.
    password_file: Option<PathBuf>,
    /// Projects whose instances may be of images that this opens, beside the
    /// default one; `*` for all.
    #[serde(default)]
    projects: Vec<String>,
}

/// Not printed.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl ImagesTable {
    /// What the node goes by. Reads the files that are named.
    pub(super) fn config(self) -> Result<ImagesConfig, String> {
        let mut config = ImagesConfig::default();
        config.registries.plain_http = self.plain_http;
        for path in &self.authorities {
            let pem = fs::read_to_string(path)
                .map_err(|error| format!("images.authorities: {}: {error}", path.display()))?;
            config.registries.authorities.push(pem);
        }
        if let Some(path) = &self.docker_config {
            config.registries.credentials = read_docker_config(path)
                .map_err(|error| format!("images.docker_config: {error}"))?;
            let hosts = config.registries.credentials.keys();
            let projects = self.docker_config_projects;
            config.credential_projects =
                hosts.map(|host| (host.clone(), projects.clone())).collect();
        }
        for (host, table) in self.registries {
            let projects = table.projects.clone();
            config.credential_projects.insert(host.clone(), projects);
            let credentials = table
                .credentials()
                .map_err(|why| format!("images.registries.{host:?}: {why}"))?;
            config.registries.credentials.insert(host, credentials);
        }
        if let Some(folder) = self.local_folders.iter().find(|f| !f.is_absolute()) {
            return Err(format!(
                "images.local_folders: {} is not absolute",
                folder.display()
            ));
        }
        config.local_folders = self.local_folders;
        config.high_water = self.high_water.unwrap_or(config.high_water);
        // Told the high one alone, the low one follows it.
        let below = config.low_water.min(config.high_water.saturating_sub(5));
        config.low_water = self.low_water.unwrap_or(below);
        if config.high_water == 0 || config.high_water > 100 {
            return Err("images.high_water: 1 to 100 percent are allowed".into());
        }
        if config.low_water >= config.high_water {
            return Err("images.low_water: must be below high_water".into());
        }
        config.parallel_pulls = self.parallel_pulls.unwrap_or(config.parallel_pulls);
        if !(1..=64).contains(&config.parallel_pulls) {
            return Err("images.parallel_pulls: 1 to 64 are allowed".into());
        }
        Ok(config)
    }
}

impl RegistryTable {
    fn credentials(self) -> Result<Credentials, String> {
        let password = match (self.password, self.password_file) {
            (Some(Secret(password)), None) => password,
            (None, Some(path)) => read_secret(&path).map_err(|error| error.to_string())?,
            _ => return Err("one of password and password_file is needed".into()),
        };
        Ok(Credentials {
            user: self.user,
            password,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn config(text: &str) -> Result<ImagesConfig, String> {
        let table: ImagesTable = toml::from_str(text).map_err(|error| error.to_string())?;
        table.config()
    }

    #[test]
    fn marks_hold_each_other() {
        let marks = |text: &str| config(text).map(|config| (config.high_water, config.low_water));
        assert_eq!(marks("").unwrap(), (85, 80));
        assert_eq!(marks("high_water = 50").unwrap(), (50, 45));
        assert_eq!(marks("high_water = 1").unwrap(), (1, 0));
        for bad in [
            "high_water = 0",
            "high_water = 101",
            "low_water = 85",
            "parallel_pulls = 0",
            "local_folders = ['a']",
        ] {
            assert!(config(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn passwords_come_from_either_place_and_are_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        fs::write(&file, "hunter2\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[registries.'r:1']\nuser = 'a'\npassword_file = '{}'\n\
             [registries.'r:2']\nuser = 'b'\npassword = 'hunter2'\n",
            file.display()
        );
        let read = config(&text).unwrap();
        for host in ["r:1", "r:2"] {
            assert_eq!(read.registries.credentials[host].password, "hunter2");
        }
        let table: ImagesTable = toml::from_str(&text).unwrap();
        for shown in [format!("{table:?}"), format!("{read:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(config(&text).unwrap_err().contains("chmod 600"));
        assert!(config("[registries.r]\nuser = 'a'").is_err());
    }
}
