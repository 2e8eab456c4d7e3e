//! Machines of the inventory: specification, phases, and the transitions
//! between phases.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// ID of a machine: a DNS label of 1 to 63 characters. Also the name of its
/// node.
pub type MachineId = crate::Label;

/// Provider that powers a machine on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// A nested node in a container of a node.
    Local,
    /// A virtual machine on a node.
    Qemu,
    /// A server with a management controller that speaks Redfish.
    Redfish,
    /// A machine of a MAAS region.
    Maas,
    /// A simulated machine, for tests.
    Sim,
}

impl ProviderKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Local,
        Self::Qemu,
        Self::Redfish,
        Self::Maas,
        Self::Sim,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Qemu => "qemu",
            Self::Redfish => "redfish",
            Self::Maas => "maas",
            Self::Sim => "sim",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ProviderKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or("is not a provider: expected local, qemu, redfish, maas or sim")
    }
}

/// A capability of a machine beyond CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Capability {
    /// Can use the storage pool.
    Storage,
    /// Has a GPU.
    Gpu,
}

impl Capability {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "STORAGE",
            Self::Gpu => "GPU",
        }
    }
}

/// Phase of a machine as a hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum MachinePhase {
    /// Down and free.
    #[default]
    Available,
    /// Being allocated from its provider.
    #[serde(alias = "TAKING")]
    Allocating,
    /// Booting.
    Booting,
    /// Booted; its node has not joined yet.
    Joining,
    /// Its node joined and is being verified with a process in a cell.
    #[serde(alias = "PROVING")]
    Verifying,
    /// Up; hosts instances.
    Up,
    /// Being powered off.
    Stopping,
    /// Being wiped and released.
    Wiping,
}

impl MachinePhase {
    /// Every phase, in order.
    pub const ALL: [Self; 8] = [
        Self::Available,
        Self::Allocating,
        Self::Booting,
        Self::Joining,
        Self::Verifying,
        Self::Up,
        Self::Stopping,
        Self::Wiping,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "AVAILABLE",
            Self::Allocating => "ALLOCATING",
            Self::Booting => "BOOTING",
            Self::Joining => "JOINING",
            Self::Verifying => "VERIFYING",
            Self::Up => "UP",
            Self::Stopping => "STOPPING",
            Self::Wiping => "WIPING",
        }
    }

    /// Whether this phase may follow that one. Every phase may be followed by
    /// stopping: a machine that fails anywhere is stopped and wiped.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Available, Self::Allocating)
                | (Self::Allocating, Self::Booting | Self::Available)
                | (Self::Booting, Self::Joining)
                | (Self::Joining, Self::Verifying)
                | (Self::Verifying, Self::Up)
                | (
                    Self::Booting | Self::Joining | Self::Verifying | Self::Up | Self::Allocating,
                    Self::Stopping
                )
                | (Self::Stopping, Self::Wiping)
                | (Self::Wiping, Self::Available)
        )
    }
}

impl fmt::Display for MachinePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Power state, as reported by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum PowerState {
    /// Powered on.
    On,
    /// Powered off.
    Off,
    /// Unknown.
    #[default]
    Unknown,
}

impl PowerState {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "ON",
            Self::Off => "OFF",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A phase that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MachineFailure {
    /// The phase.
    pub phase: MachinePhase,
    /// Reason.
    pub why: String,
    /// Timestamp, in Unix milliseconds.
    pub at_ms: i64,
}

/// Specification of a machine of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineSpec {
    /// Provider of the machine.
    pub provider: ProviderKind,
    /// ID at the provider: the path of its Redfish system, its MAAS system ID,
    /// or `tag:NAME` for any machine with that tag. Default: the ID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub handle: String,
    /// URL of its management interface: a BMC or a MAAS region.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Name of the credentials in the configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credentials: String,
    /// CPU threads, for providers that size machines; measured once it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory in MB, for providers that size machines; measured once it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
    /// Disk in GB, for providers that size machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Labels, also set on its node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_can_come_back_to_available() {
        for phase in MachinePhase::ALL {
            let mut seen = vec![phase];
            let mut at = 0;
            while at < seen.len() {
                let next = MachinePhase::ALL.into_iter();
                let next: Vec<_> = next.filter(|n| seen[at].may_become(*n)).collect();
                seen.extend(
                    next.into_iter()
                        .filter(|n| !seen.contains(n))
                        .collect::<Vec<_>>(),
                );
                at += 1;
            }
            assert!(seen.contains(&MachinePhase::Available), "{phase}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for kind in ProviderKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert!("x".parse::<ProviderKind>().is_err());
    }
}
