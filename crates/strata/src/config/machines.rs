//! The `[machines]` section: where machines come from.
//!
//! ```toml
//! [machines]
//! local = 3
//! inventory = "/etc/strata/machines.toml"
//! server = "https://192.0.2.1:7700"
//!
//! [machines.qemu]
//! kernel_directory = "/usr/lib/strata/kernel"
//!
//! [machines.redfish]
//! media = { listen = "192.0.2.1:7780" }
//! [machines.redfish.credentials.rack1]
//! user = "admin"
//! password_file = "/etc/strata/rack1.password"
//!
//! [machines.maas]
//! binary_url = "http://192.0.2.1/strata"
//! binary_sha256 = "…"
//! [machines.maas.credentials.region]
//! address = "http://192.0.2.9:5240/MAAS"
//! api_key_file = "/etc/strata/maas.key"
//! ```

use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_machines::maas::MaasConfig;
use strata_machines::redfish::RedfishConfig;
use strata_types::Label;
use strata_types::machine::{MachineSpec, ProviderKind};

/// Where machines come from.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachinesTable {
    /// Number of nested nodes in the inventory. Default: 3.
    local: Option<u32>,
    /// CPU threads of each. Default: half of the host.
    local_cpu: Option<u32>,
    /// Memory of each in MB. Default: a quarter of the host.
    local_ram: Option<u64>,
    /// A file with further machines.
    inventory: Option<PathBuf>,
    /// How machines reach this server, where that is another way than people's.
    server: Option<String>,
    /// The socket of the node that hosts local and virtual machines, where the
    /// server runs without a node of its own.
    host_socket: Option<PathBuf>,
    /// Virtual machines of the node beside the server.
    #[serde(default)]
    qemu: QemuTable,
    /// Servers with a management controller.
    redfish: Option<RedfishConfig>,
    /// A MAAS region.
    maas: Option<MaasConfig>,
}

/// Virtual machines that boot our own kernel.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct QemuTable {
    /// Directory of the guest kernel and its modules. Default: that of
    /// `scripts/guest-kernel` in the cache of the user.
    #[serde(alias = "kernel_folder")]
    kernel_directory: Option<PathBuf>,
}

/// What the control plane goes by to bring machines up.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachinesSettings {
    pub(crate) local: Option<u32>,
    pub(crate) local_cpu: Option<u32>,
    pub(crate) local_ram: Option<u64>,
    pub(crate) inventory: Vec<(Label, MachineSpec)>,
    pub(crate) server: Option<String>,
    pub(crate) host_socket: Option<PathBuf>,
    pub(crate) kernel_directory: Option<PathBuf>,
    pub(crate) redfish: Option<RedfishConfig>,
    pub(crate) maas: Option<MaasConfig>,
}

/// Maximum number of nested nodes: each has its own /24.
const MAX_LOCAL_MACHINES: u32 = 64;

impl MachinesTable {
    pub(super) fn settings(self) -> Result<MachinesSettings, String> {
        if self.local.is_some_and(|local| local > MAX_LOCAL_MACHINES) {
            return Err(format!(
                "[machines] local must be at most {MAX_LOCAL_MACHINES}"
            ));
        }
        let inventory = match &self.inventory {
            Some(path) => read(path)?,
            None => Vec::new(),
        };
        Ok(MachinesSettings {
            local: self.local,
            local_cpu: self.local_cpu,
            local_ram: self.local_ram,
            inventory,
            server: self.server,
            host_socket: self.host_socket,
            kernel_directory: self.qemu.kernel_directory,
            redfish: self.redfish,
            maas: self.maas,
        })
    }
}

/// Inventory file: `[[machine]]` with an ID and a specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inventory {
    #[serde(default)]
    machine: Vec<toml::Table>,
}

fn read(path: &Path) -> Result<Vec<(Label, MachineSpec)>, String> {
    let bad = |why: String| format!("[machines] inventory {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let file: Inventory = toml::from_str(&text).map_err(|error| bad(error.message().into()))?;
    let machines = file.machine.into_iter().enumerate();
    machines
        .map(|(i, mut table)| {
            let bad = |why: String| bad(format!("machine {}: {why}", i + 1));
            let id = match table.remove("id") {
                Some(toml::Value::String(id)) => id,
                _ => return Err(bad("has no id".into())),
            };
            let id: Label = id.parse().map_err(|why| bad(format!("id {id:?} {why}")))?;
            let spec = table.try_into::<MachineSpec>();
            let spec = spec.map_err(|error| bad(error.message().into()))?;
            Ok((id, spec))
        })
        .collect()
}

impl MachinesSettings {
    /// The machines inside this one that are in the inventory from the start.
    pub(crate) fn local_machines(&self) -> Vec<(Label, MachineSpec)> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let cpu = self.local_cpu.unwrap_or((threads as u32).div_ceil(2));
        let ram = self.local_ram.unwrap_or((memory_mb() / 4).max(256));
        let numbers = 1..=self.local.unwrap_or(3);
        let named = numbers.filter_map(|n| format!("local-{n}").parse().ok());
        let spec = MachineSpec {
            provider: ProviderKind::Local,
            handle: String::new(),
            address: String::new(),
            credentials: String::new(),
            cpu: Some(cpu),
            ram: Some(ram),
            disk: None,
            labels: std::collections::BTreeMap::new(),
        };
        named.map(|id| (id, spec.clone())).collect()
    }
}

fn memory_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.map_or(1024, |kilobytes: u64| kilobytes * 1024 / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_directory_is_read_by_its_former_key_too() {
        for key in ["kernel_directory", "kernel_folder"] {
            let qemu: QemuTable = toml::from_str(&format!("{key} = '/k'")).unwrap();
            assert_eq!(qemu.kernel_directory, Some("/k".into()), "{key}");
        }
    }

    #[test]
    fn an_inventory_is_read_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("machines.toml");
        let text = "[[machine]]\nid = 'rack-1'\nprovider = 'redfish'\naddress = 'https://192.0.2.7'\nlabels = { zone = 'a' }\n";
        std::fs::write(&path, text).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found[0].0.as_str(), "rack-1");
        assert_eq!(found[0].1.provider, ProviderKind::Redfish);
        for bad in [
            "[[machine]]\nprovider = 'local'\n",
            "[[machine]]\nid = 'x'\nprovider = 'y'\n",
        ] {
            std::fs::write(&path, bad).unwrap();
            let why = read(&path).unwrap_err();
            assert!(why.contains("machine 1"), "{why}");
        }
    }
}
