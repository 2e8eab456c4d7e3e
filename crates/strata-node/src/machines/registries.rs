//! The registries of the host's node, for the nodes nested in it: they pull
//! what the host pulls. What is secret lies on the machine's disk, for its root
//! alone; its configuration names the files.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::files::quoted;
use crate::images::ImagesConfig;

/// The data directory of a nested node, as it sees it.
const DATA: &str = "/var/lib/strata";

fn authority(number: usize) -> String {
    format!("registry-{number}.pem")
}

fn password(number: usize) -> String {
    format!("registry-{number}.password")
}

/// Registries with credentials, in an order that stays.
fn known(config: &ImagesConfig) -> Vec<&String> {
    let mut hosts: Vec<&String> = config.registries.credentials.keys().collect();
    hosts.sort();
    hosts
}

/// The `[images]` section of a nested node.
pub(super) fn section(config: &ImagesConfig) -> String {
    let registries = &config.registries;
    if registries.plain_http.is_empty()
        && registries.authorities.is_empty()
        && registries.credentials.is_empty()
    {
        return String::new();
    }
    let list = |texts: &mut dyn Iterator<Item = String>| {
        let texts: Vec<String> = texts.map(|text| quoted(&text)).collect();
        format!("[{}]", texts.join(", "))
    };
    let plain = list(&mut registries.plain_http.iter().cloned());
    let authorities = 0..registries.authorities.len();
    let authorities = list(&mut authorities.map(|number| format!("{DATA}/{}", authority(number))));
    let mut text = format!("\n[images]\nplain_http = {plain}\nauthorities = {authorities}\n");
    for (number, host) in known(config).into_iter().enumerate() {
        let Some(credentials) = registries.credentials.get(host) else {
            continue;
        };
        let projects = config.credential_projects.get(host);
        let projects = list(&mut projects.into_iter().flatten().cloned());
        let _ = write!(
            text,
            "\n[images.registries.{}]\nuser = {}\npassword_file = {}\nprojects = {projects}\n",
            quoted(host),
            quoted(&credentials.user),
            quoted(&format!("{DATA}/{}", password(number))),
        );
    }
    text
}

/// Writes the files that the section names, into the machine's data directory.
pub(super) fn hand_over(config: &ImagesConfig, data: &Path) -> io::Result<()> {
    for (number, pem) in config.registries.authorities.iter().enumerate() {
        write(&data.join(authority(number)), pem)?;
    }
    for (number, host) in known(config).into_iter().enumerate() {
        if let Some(credentials) = config.registries.credentials.get(host) {
            write(&data.join(password(number)), &credentials.password)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(text.as_bytes())?;
    std::fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::images::Credentials;

    #[test]
    fn a_nested_node_has_the_registries_of_its_host() {
        assert_eq!(section(&ImagesConfig::default()), "");
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
        let text = section(&config);
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
        hand_over(&config, data.path()).unwrap();
        let file = data.path().join("registry-0.password");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "secret");
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(data.path().join("registry-0.pem").exists());
    }
}
