//! The `[images]` section: registries, credentials, local files, disk space.
//!
//! ```toml
//! [images]
//! plain_http = ["registry.lan:5000"]
//! certificate_authorities = ["/etc/strata/registry-ca.pem"]
//! docker_config = "/root/.docker/config.json"
//! docker_config_projects = ["shop"]
//! local_folders = ["/srv/images"]
//! high_water = 85
//! low_water = 80
//! parallel_pulls = 8
//! image_gib = 64
//! disk_reserve = 5
//! project_share = 50
//!
//! [images.registries."registry.lan:5000"]
//! user = "strata"
//! password_file = "/etc/strata/registry.password"
//! projects = ["shop"]
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_node::images::{
    Credentials, ImagesConfig, joined_section, read_docker_config, read_secret,
};

/// How the node deals with images.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImagesTable {
    /// Registries (HOST or HOST:PORT) that may be spoken to without TLS.
    #[serde(default)]
    plain_http: Vec<String>,
    /// PEM files of certificate authorities that registries are trusted by,
    /// beside those of the system.
    #[serde(default, alias = "authorities")]
    certificate_authorities: Vec<PathBuf>,
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
    /// Directories below which operators may pull `oci:` and `docker-archive:`
    /// files of this machine. Admins may everywhere.
    #[serde(default)]
    local_folders: Vec<PathBuf>,
    /// Disk usage in percent above which unused images are removed, least
    /// recently used first; 100 for never. Default: 85.
    high_water: Option<u8>,
    /// Disk usage in percent down to which images are removed; below
    /// high_water. Default: 80.
    low_water: Option<u8>,
    /// Number of concurrent pulls, 1 to 64. Default: 8.
    parallel_pulls: Option<usize>,
    /// GiB that all layers of one image may unpack to, 1 to 65536.
    /// Default: 64.
    image_gib: Option<u64>,
    /// Percent of the file system that pulls leave free, at least 2 GiB (or a
    /// tenth, where that is less); 0 to 50, 0 for none. Default: 5.
    disk_reserve: Option<u8>,
    /// What the images of one project may take, in percent of what they hold
    /// and what is free together; 1 to 100, 100 for no bound. Default: 50.
    project_share: Option<u8>,
}

/// Our credentials for a registry.
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
        for path in &self.certificate_authorities {
            let pem = fs::read_to_string(path).map_err(|error| {
                format!(
                    "images.certificate_authorities: {}: {error}",
                    path.display()
                )
            })?;
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
        if let Some(directory) = self.local_folders.iter().find(|f| !f.is_absolute()) {
            return Err(format!(
                "images.local_folders: {} is not absolute",
                directory.display()
            ));
        }
        config.local_dirs = self.local_folders;
        config.high_water = self.high_water.unwrap_or(config.high_water);
        // Where only the high one is configured, the low one follows it.
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
        if let Some(gib) = self.image_gib {
            if !(1..=65536).contains(&gib) {
                return Err("images.image_gib: 1 to 65536 are allowed".into());
            }
            config.image_bytes = gib << 30;
        }
        config.reserve.percent = self.disk_reserve.unwrap_or(config.reserve.percent);
        if config.reserve.percent > 50 {
            return Err("images.disk_reserve: 0 to 50 percent are allowed".into());
        }
        config.project_percent = self.project_share.unwrap_or(config.project_percent);
        if !(1..=100).contains(&config.project_percent) {
            return Err("images.project_share: 1 to 100 percent are allowed".into());
        }
        Ok(config)
    }
}

/// The file that a node gets when it joins.
#[derive(Deserialize)]
struct JoinedFile {
    images: ImagesTable,
}

/// Adds the registries that the node in this directory was given, if it was.
pub(super) fn add_joined(config: &mut ImagesConfig, data_dir: &Path) -> Result<(), String> {
    let text = match fs::read_to_string(joined_section(data_dir)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| error.to_string())?,
    };
    let file: JoinedFile = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
    let joined = file.images.config()?;
    config.registries = joined.registries;
    config.credential_projects = joined.credential_projects;
    Ok(())
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

    use strata_node::images::keep_joined;

    use super::*;

    fn config(text: &str) -> Result<ImagesConfig, String> {
        let table: ImagesTable = toml::from_str(text).map_err(|error| error.to_string())?;
        table.config()
    }

    #[test]
    fn certificate_authorities_are_read_by_their_former_key_too() {
        for key in ["certificate_authorities", "authorities"] {
            let table: ImagesTable = toml::from_str(&format!("{key} = ['/ca']")).unwrap();
            let paths = [PathBuf::from("/ca")];
            assert_eq!(table.certificate_authorities, paths, "{key}");
        }
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
            "image_gib = 0",
            "disk_reserve = 51",
            "project_share = 0",
            "project_share = 101",
            "local_folders = ['a']",
        ] {
            assert!(config(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_on_the_disk_have_defaults() {
        let bounds = |text: &str| {
            let config = config(text).unwrap();
            let percent = config.project_percent;
            (config.image_bytes, config.reserve.percent, percent)
        };
        assert_eq!(bounds(""), (64 << 30, 5, 50));
        let others = bounds("image_gib = 200\ndisk_reserve = 0\nproject_share = 100");
        assert_eq!(others, (200 << 30, 0, 100));
    }

    #[test]
    fn node_has_the_registries_it_was_given_when_it_joined() {
        let server = config(
            "plain_http = ['r:1']\n[registries.'r:1']\nuser = 'a\"b'\npassword = 'hunter2'\n\
             projects = ['shop']",
        );
        let server = server.unwrap();
        assert!(ImagesConfig::default().to_joining().is_none());
        let data_dir = tempfile::tempdir().unwrap();
        let mut node = config("high_water = 70").unwrap();
        add_joined(&mut node, data_dir.path()).unwrap();
        assert!(node.has_no_registries());

        let mut given = server.to_joining().unwrap();
        given.authorities = vec!["PEM".into()];
        // Joining twice is joining once.
        keep_joined(data_dir.path(), given.clone()).unwrap();
        keep_joined(data_dir.path(), given).unwrap();
        add_joined(&mut node, data_dir.path()).unwrap();
        let known = &node.registries.credentials["r:1"];
        assert_eq!((&*known.user, &*known.password), ("a\"b", "hunter2"));
        assert_eq!(node.credential_projects["r:1"], ["shop"]);
        assert_eq!(node.registries.plain_http, ["r:1"]);
        assert_eq!(node.registries.authorities, ["PEM"]);
        assert_eq!(node.high_water, 70);
        let directory = data_dir.path().join("registries");
        for file in fs::read_dir(&directory).unwrap() {
            let metadata = file.unwrap().metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn passwords_come_from_either_place_and_are_not_printed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
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
