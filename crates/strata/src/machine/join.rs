//! What a machine is told at its boot: the server to join, and with what. It
//! is read once and removed; PID 1 keeps it for as long as it lives, for a
//! daemon that died before it could join.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use strata_machines::image::{JOIN_FILE, JoinFile};

use super::say;

/// What the daemon goes by.
const CONFIG: &str = "/run/strata/machine.toml";
/// Where a node answers on a machine of its own.
const LISTEN: &str = "0.0.0.0:7710";

/// The server to join.
pub(super) struct Join(JoinFile);

impl Join {
    /// What this machine was told, if it was.
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
                say(&format!("{JOIN_FILE} makes no sense: {error}"));
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

    /// Has the daemon join. The secret goes by the environment, which is the
    /// daemon's own to read; arguments are everybody's.
    pub(super) fn tell(&self, daemon: &mut Command, address: Option<Ipv4Addr>) -> io::Result<()> {
        fs::create_dir_all("/run/strata")?;
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
}

fn config(join: &JoinFile, address: Option<Ipv4Addr>) -> io::Result<String> {
    let config = Config {
        node_listen: LISTEN,
        network: Network { address },
        node: Node {
            labels: &join.labels,
        },
    };
    toml::to_string(&config).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_understands_what_it_is_told() {
        let join = JoinFile {
            server: "https://10.0.0.1:7700".into(),
            token: "strata_join_x".into(),
            name: "m1".into(),
            labels: [("a \"b\"".to_owned(), "c\\d".to_owned())].into(),
        };
        let text = config(&join, Some(Ipv4Addr::new(10, 0, 0, 2))).unwrap();
        assert!(!text.contains("strata_join_x"));
        let read: toml::Table = text.parse().unwrap();
        let label = read["node"]["labels"]["a \"b\""].as_str();
        assert_eq!(label, Some("c\\d"));
        assert_eq!(read["network"]["address"].as_str(), Some("10.0.0.2"));
    }
}
