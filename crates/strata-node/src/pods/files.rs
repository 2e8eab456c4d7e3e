//! The files a pod finds in `/etc` whatever its image contains: its identity,
//! and its resolvers.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use strata_types::pod::{PodNetwork, PodSpec};
use strata_types::{Error, Result};

use super::kind::PodAllocation;

/// The names of these files.
pub(super) const FILES: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

/// Writes them into the pod's directory.
pub(super) fn write(
    dir: &Path,
    spec: &PodSpec,
    allocated: &PodAllocation,
    gateway: Option<Ipv4Addr>,
) -> Result<()> {
    let hostname = spec.hostname.as_ref().unwrap_or(spec.name.label());
    let texts = match spec.network {
        // The machine's own network has the machine's own names.
        PodNetwork::Host => [
            of_host("hosts"),
            format!("{hostname}\n"),
            of_host("resolv.conf"),
        ],
        _ => [
            hosts(allocated.address, hostname.as_str()),
            format!("{hostname}\n"),
            gateway.map(resolv_conf).unwrap_or_default(),
        ],
    };
    let write = || {
        crate::node_dir::make_private(dir)?;
        for (name, text) in FILES.into_iter().zip(texts) {
            let path = dir.join(name);
            fs::write(&path, text)?;
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    };
    write().map_err(|error: std::io::Error| match error.kind() {
        std::io::ErrorKind::StorageFull => {
            Error::exhausted(format!("cannot write the pod's files: {error}"))
                .with_hint("make room on the disk of the data directory")
        }
        _ => Error::internal(format!("cannot write the pod's files: {error}")),
    })
}

fn of_host(name: &str) -> String {
    fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default()
}

fn hosts(address: Option<Ipv4Addr>, hostname: &str) -> String {
    let mut text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n".to_owned();
    if let Some(address) = address {
        text.push_str(&format!("{address}\t{hostname}\n"));
    }
    text
}

fn resolv_conf(gateway: Ipv4Addr) -> String {
    format!("nameserver {gateway}\nsearch {}\n", strata_network::DOMAIN)
}
