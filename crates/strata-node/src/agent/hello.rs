//! What a node reports of itself when it connects to a server.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use strata_api::strata::v1;

use super::measure;
use crate::Node;
use crate::blocking::blocking;
use crate::nested_nodes::SPAWNED;

/// What virtual machines run on.
const QEMU: &str = "qemu-system-x86_64";
/// Makers of GPUs, by their numbers on the PCI bus.
const MAKERS: [(&str, &str); 2] = [("0x10de", "nvidia"), ("0x1002", "amd")];

/// What a node is now.
pub(super) fn hello(
    node: &Node,
    labels: &BTreeMap<String, String>,
    address: Option<std::net::Ipv4Addr>,
    witness_port: u16,
) -> v1::Hello {
    let subnet = node.network.subnet_to_ask_for();
    v1::Hello {
        version: node.config.version.clone(),
        labels: all_labels(labels),
        capacity: Some(measure::capacity(&node.config.data_dir)),
        // A nested node sees the GPUs of its host, and has none.
        gpus: match std::env::var_os(SPAWNED) {
            Some(_) => Vec::new(),
            None => gpus(Path::new("/sys/bus/pci/devices")),
        },
        runs_vms: runs_vms(),
        address: address.map(|a| a.to_string()).unwrap_or_default(),
        subnet: subnet.map(|s| s.to_string()).unwrap_or_default(),
        pool: blocking(|| node.pool.id()).unwrap_or_default(),
        overlay_encryption: Some(node.network.overlay_encryption()),
        holds_leases: true,
        witness_port: witness_port.into(),
        keeps: true,
        peer_deltas: true,
    }
}

/// Those of the configuration, and those that the machine has by itself.
fn all_labels(configured: &BTreeMap<String, String>) -> HashMap<String, String> {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let own = [
        ("strata.dev/arch", arch.to_owned()),
        ("strata.dev/kernel", text(system.release())),
        ("strata.dev/hostname", text(system.nodename())),
    ];
    let configured = configured.iter().map(|(k, v)| (k.clone(), v.clone()));
    configured
        .chain(own.map(|(key, value)| (key.to_owned(), value)))
        .collect()
}

/// Whether QEMU is there. Whether it works is found out when it is first
/// needed: that takes seconds.
fn runs_vms() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut dirs = std::env::split_paths(&path);
    dirs.any(|dir| dir.is_absolute() && dir.join(QEMU).is_file())
}

/// GPUs of makers that are known, counted by maker.
fn gpus(devices: &Path) -> Vec<v1::NodeGpus> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for device in fs::read_dir(devices).into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(device.path().join(file)).unwrap_or_default();
        // Displays, and those that only compute.
        if !read("class").starts_with("0x03") {
            continue;
        }
        let vendor = read("vendor");
        let maker = MAKERS.iter().find(|(number, _)| vendor.trim() == *number);
        if let Some((_, kind)) = maker {
            *counts.entry(kind).or_default() += 1;
        }
    }
    let gpu = |(kind, count): (&str, u32)| v1::NodeGpus {
        kind: kind.to_owned(),
        count,
    };
    counts.into_iter().map(gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted_by_vendor() {
        let bus = tempfile::tempdir().unwrap();
        for (slot, class, vendor) in [
            ("01", "0x030000\n", "0x10de\n"),
            ("02", "0x030200\n", "0x10de\n"),
            ("03", "0x030000\n", "0x1002\n"),
            ("04", "0x030000\n", "0x1234\n"),
            ("05", "0x020000\n", "0x10de\n"),
        ] {
            let device = bus.path().join(slot);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("class"), class).unwrap();
            fs::write(device.join("vendor"), vendor).unwrap();
        }
        let found: Vec<_> = gpus(bus.path())
            .into_iter()
            .map(|gpu| (gpu.kind, gpu.count))
            .collect();
        assert_eq!(found, [("amd".to_owned(), 1), ("nvidia".to_owned(), 2)]);
        assert!(gpus(&bus.path().join("none")).is_empty());
    }

    #[test]
    fn measured_labels_override_configured_ones() {
        let said = BTreeMap::from([
            ("zone".to_owned(), "a".to_owned()),
            ("strata.dev/arch".to_owned(), "vax".to_owned()),
        ]);
        let labels = all_labels(&said);
        assert_eq!(labels["zone"], "a");
        assert_ne!(labels["strata.dev/arch"], "vax");
        assert!(labels.contains_key("strata.dev/kernel"));
    }
}
