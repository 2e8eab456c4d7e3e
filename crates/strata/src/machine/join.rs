//! Join parameters of a host, from its boot image: the server, and the token.
//! Read once and removed; PID 1 keeps them in memory, for a daemon that died
//! before it could join.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use strata_machines::image::{IMAGES_DIRECTORY, JOIN_FILE, JoinFile, NodeImages};

use super::say;

/// What the daemon goes by.
const CONFIG: &str = "/run/strata/machine.toml";
/// Where a node answers on a machine of its own.
const LISTEN: &str = "0.0.0.0:7710";

/// The server to join.
pub(super) struct Join(JoinFile);

impl Join {
    /// The join parameters of this host, if any.
    pub(super) fn take() -> Option<Self> {
        let path = Path::new(JOIN_FILE);
        if !path.exists() {
            return None;
        }
        let told = JoinFile::read(path);
        if let Err(error) = fs::remove_file(path) {
            say(&format!("cannot remove {JOIN_FILE}: {error}"));
        }
        match told {
            Ok(join) => Some(Self(join)),
            Err(error) => {
                say(&format!("{JOIN_FILE} is not valid: {error}"));
                None
            }
        }
    }

    /// Takes the machine's name, also where others look for it.
    pub(super) fn name_machine(&self) {
        let name = &self.0.name;
        let hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t{name}\n");
        let named = rustix::system::sethostname(name.as_bytes()).map_err(io::Error::from);
        let written = fs::write("/etc/hosts", hosts);
        let written = written.and_then(|()| fs::write("/etc/hostname", format!("{name}\n")));
        if let Err(error) = named.and(written) {
            say(&format!("cannot name the machine {name}: {error}"));
        }
    }

    /// Has the daemon join. The secret goes by the environment, which only the
    /// daemon can read; arguments are readable for every user.
    pub(super) fn tell(&self, daemon: &mut Command, address: Option<Ipv4Addr>) -> io::Result<()> {
        fs::create_dir_all("/run/strata")?;
        write_files(Path::new(IMAGES_DIRECTORY), &self.0.images)?;
        fs::write(CONFIG, config(&self.0, address)?)?;
        daemon
            .args(["--config", CONFIG, "--server", &self.0.server])
            .args(["--name", &self.0.name])
            .env("STRATA_JOIN_TOKEN", &self.0.token);
        Ok(())
    }
}

#[derive(Serialize)]
struct Config<'a> {
    node_listen: &'a str,
    network: Network,
    node: Node<'a>,
}

#[derive(Serialize)]
struct Network {
    /// Where other nodes send what is for pods of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Ipv4Addr>,
}

#[derive(Serialize)]
struct Node<'a> {
    labels: &'a std::collections::BTreeMap<String, String>,
    allow_host_users: bool,
}

fn config(join: &JoinFile, address: Option<Ipv4Addr>) -> io::Result<String> {
    let config = Config {
        node_listen: LISTEN,
        network: Network { address },
        node: Node {
            labels: &join.labels,
            // Its data is in memory, and before Linux 6.3 that has no idmapped
            // mounts: the machine would run no pod at all (decision 59).
            allow_host_users: true,
        },
    };
    let text = toml::to_string(&config).map_err(io::Error::other)?;
    Ok(text + &join.images.section)
}

/// Writes the files that the configuration of registries names, for root alone.
fn write_files(directory: &Path, images: &NodeImages) -> io::Result<()> {
    let private = |name: &String| !name.contains('/') && !name.starts_with('.');
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    for (name, text) in images.files.iter().filter(|(name, _)| private(name)) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(directory.join(name))?
            .write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_arguments_parse() {
        let join = JoinFile {
            server: "https://10.0.0.1:7700".into(),
            token: "strata_join_x".into(),
            name: "m1".into(),
            labels: [("a \"b\"".to_owned(), "c\\d".to_owned())].into(),
            images: NodeImages {
                section: "\n[images]\nplain_http = [\"r:5000\"]\n".into(),
                files: [("registry-0.password".to_owned(), "hunter2".to_owned())].into(),
            },
        };
        let text = config(&join, Some(Ipv4Addr::new(10, 0, 0, 2))).unwrap();
        assert!(!text.contains("strata_join_x"));
        let read: toml::Table = text.parse().unwrap();
        let label = read["node"]["labels"]["a \"b\""].as_str();
        assert_eq!(label, Some("c\\d"));
        assert_eq!(read["node"]["allow_host_users"].as_bool(), Some(true));
        assert_eq!(read["network"]["address"].as_str(), Some("10.0.0.2"));
        assert_eq!(read["images"]["plain_http"][0].as_str(), Some("r:5000"));
        let directory = tempfile::tempdir().unwrap();
        write_files(&directory.path().join("images"), &join.images).unwrap();
        let password = fs::read_to_string(directory.path().join("images/registry-0.password"));
        assert_eq!(password.unwrap(), "hunter2");
    }
}
