//! The registries of a node, for the nodes of machines that are made on its
//! host: they pull what it pulls. What is secret is in files of its own, for root
//! alone; the configuration names them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::ImagesConfig;

/// What another node needs to have the same registries.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Handover {
    /// The `[images]` section of its configuration; empty when there is nothing
    /// to set.
    pub section: String,
    /// The files that the section names, by their names in its directory.
    pub files: BTreeMap<String, String>,
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.section)
    }
}

impl Handover {
    /// For a node that finds the files in this directory.
    #[must_use]
    pub fn new(config: &ImagesConfig, directory: &str) -> Self {
        let registries = &config.registries;
        if config.has_no_registries() {
            return Self::default();
        }
        let mut files = BTreeMap::new();
        for (number, pem) in registries.authorities.iter().enumerate() {
            files.insert(format!("registry-{number}.pem"), pem.clone());
        }
        let authorities = list(files.keys().map(|name| format!("{directory}/{name}")));
        let plain = list(registries.plain_http.iter().cloned());
        let mut section =
            format!("\n[images]\nplain_http = {plain}\nauthorities = {authorities}\n");
        let mut hosts: Vec<_> = registries.credentials.iter().collect();
        hosts.sort_by_key(|(host, _)| *host);
        for (number, (host, credentials)) in hosts.into_iter().enumerate() {
            let name = format!("registry-{number}.password");
            let projects = config.credential_projects.get(host);
            let projects = list(projects.into_iter().flatten().cloned());
            let _ = write!(
                section,
                "\n[images.registries.{}]\nuser = {}\npassword_file = {}\nprojects = {projects}\n",
                quoted(host),
                quoted(&credentials.user),
                quoted(&format!("{directory}/{name}")),
            );
            files.insert(name, credentials.password.clone());
        }
        Self { section, files }
    }

    /// Writes the files, for root alone.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        for (name, text) in &self.files {
            let path = directory.join(name);
            let new = path.with_extension("new");
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&new)?.write_all(text.as_bytes())?;
            std::fs::rename(new, path)?;
        }
        Ok(())
    }
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.map(|text| quoted(&text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A text as TOML has it. There are no control characters in it.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::images::Credentials;

    #[test]
    fn handover_gives_a_nested_node_the_same_registries() {
        assert_eq!(Handover::new(&ImagesConfig::default(), "/x").section, "");
        let mut config = ImagesConfig::default();
        let host = "registry.lan:5000".to_owned();
        config.registries.plain_http = vec![host.clone()];
        config.registries.authorities = vec!["PEM".into()];
        let credentials = Credentials {
            user: "st\"rata".into(),
            password: "secret".into(),
        };
        config
            .registries
            .credentials
            .insert(host.clone(), credentials);
        config.credential_projects.insert(host, vec!["shop".into()]);
        let handover = Handover::new(&config, "/var/lib/strata");
        let text = handover.section.clone();
        for part in [
            "plain_http = [\"registry.lan:5000\"]",
            "authorities = [\"/var/lib/strata/registry-0.pem\"]",
            "[images.registries.\"registry.lan:5000\"]",
            "user = \"st\\\"rata\"",
            "password_file = \"/var/lib/strata/registry-0.password\"",
            "projects = [\"shop\"]",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("secret"), "{text}");

        let data = tempfile::tempdir().unwrap();
        handover.write(data.path()).unwrap();
        let file = data.path().join("registry-0.password");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "secret");
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(data.path().join("registry-0.pem").exists());
    }
}
