//! The files a machine has of its own, whatever the host's contain: its
//! identity, and the configuration of its node. Nothing here touches the
//! machine.

use super::PORT;
use super::kind::NestedNodeAllocation;
use super::spec::NestedNodeSpec;
use crate::images::quoted;

/// Where its node finds what it goes by.
pub(super) const CONFIG: &str = "/etc/strata/node.toml";
/// Where it finds the storage pool. Not where the host has it, which may be in
/// the data directory: what clears that of the machine's node must not come there.
pub(super) const POOL: &str = "/run/strata/pool";
/// Where it finds the versions of Kubernetes that the host node has. The
/// scripts of clusters look there.
pub(super) const KUBERNETES: &str = "/run/strata/kubernetes";

/// How much of the host it may use, for programs that would take the host's
/// for theirs. The scripts of clusters read it.
const LIMITS: &str = "/etc/strata/limits";

/// The label by which a provider knows its machines again.
const TAG: &str = "strata.dev/tag";

/// The files of a machine, and what is in them.
pub(super) fn of(
    id: &str,
    unit_spec: &NestedNodeSpec,
    allocated: &NestedNodeAllocation,
    pool: bool,
    images: &str,
) -> Vec<(String, String)> {
    let (name, address) = (&unit_spec.name, allocated.address);
    let hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{address}\t{name}\n");
    let resolv = allocated
        .gateway
        .map(|gateway| format!("nameserver {gateway}\nsearch {}\n", strata_network::DOMAIN));
    [
        ("/etc/hosts", hosts),
        ("/etc/hostname", format!("{name}\n")),
        ("/etc/resolv.conf", resolv.unwrap_or_default()),
        ("/etc/machine-id", format!("{}\n", id.replace('-', ""))),
        (LIMITS, limits(unit_spec)),
        (CONFIG, config(unit_spec, allocated, pool) + images),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .to_vec()
}

/// Its limits, one a line; those it does not have are left out.
fn limits(unit_spec: &NestedNodeSpec) -> String {
    let memory = unit_spec
        .memory
        .map(|bytes| format!("memory_bytes={bytes}\n"));
    let cpu = unit_spec
        .cpu_millis
        .map(|millis| format!("cpu_millis={millis}\n"));
    memory.into_iter().chain(cpu).collect()
}

/// A machine that joins a server gets its subnet there, as any other node, and
/// reports its labels, all but the one that names the machine's owner.
fn config(unit_spec: &NestedNodeSpec, allocated: &NestedNodeAllocation, pool: bool) -> String {
    let mut text = format!("node_listen = \"0.0.0.0:{PORT}\"\n");
    if unit_spec.join.is_none() {
        let (range, subnet) = (allocated.range, allocated.subnet);
        text += &format!("\n[network]\nrange = \"{range}\"\nsubnet = \"{subnet}\"\n");
    }
    if pool {
        text += &format!("\n[node]\npool = \"{POOL}\"\n");
    }
    if unit_spec.join.is_some() {
        text += "\n[node.labels]\n";
        let told = unit_spec.labels.iter();
        for (key, value) in told.filter(|(key, _)| key.as_str() != TAG) {
            text += &format!("{} = {}\n", quoted(key), quoted(value));
        }
    }
    text
}
