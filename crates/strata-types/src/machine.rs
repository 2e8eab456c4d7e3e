//! Machines of the inventory: what is known of one, where it stands in its
//! life, and which steps of that life may follow each other.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of a machine: 1 to 63 of `a-z`, `0-9` and `-`, as a DNS label. It is
/// also the name of the node that comes up on it.
pub type MachineId = crate::Label;

/// Who brings a machine up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// A machine inside a machine that runs a node.
    Local,
    /// A virtual machine on a node.
    Qemu,
    /// A server with a management controller that speaks Redfish.
    Redfish,
    /// A machine of a MAAS region.
    Maas,
    /// One that is only played, for tests.
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

    /// The word.
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
        found.ok_or("is no provider; there are local, qemu, redfish, maas and sim")
    }
}

/// What a machine is good for beyond cpu and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Capability {
    /// It reaches the storage pool.
    Storage,
    /// It has a GPU.
    Gpu,
}

impl Capability {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "STORAGE",
            Self::Gpu => "GPU",
        }
    }
}

/// Where a machine stands in its life as a hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum MachinePhase {
    /// Down, and free to be brought up.
    #[default]
    Available,
    /// It is being taken from its provider.
    Taking,
    /// It is being booted.
    Booting,
    /// It runs; its node has not come yet.
    Joining,
    /// Its node came; it is tried with a process in a cell.
    Proving,
    /// It hosts instances.
    Up,
    /// It is being switched off.
    Stopping,
    /// What was on it is being erased, and it is given back.
    Wiping,
}

impl MachinePhase {
    /// Every phase, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Available,
        Self::Taking,
        Self::Booting,
        Self::Joining,
        Self::Proving,
        Self::Up,
        Self::Stopping,
        Self::Wiping,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "AVAILABLE",
            Self::Taking => "TAKING",
            Self::Booting => "BOOTING",
            Self::Joining => "JOINING",
            Self::Proving => "PROVING",
            Self::Up => "UP",
            Self::Stopping => "STOPPING",
            Self::Wiping => "WIPING",
        }
    }

    /// Whether this one may follow that one. Every phase may turn to the way
    /// down: a machine that fails anywhere is stopped and wiped.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Available, Self::Taking)
                | (Self::Taking, Self::Booting | Self::Available)
                | (Self::Booting, Self::Joining)
                | (Self::Joining, Self::Proving)
                | (Self::Proving, Self::Up)
                | (
                    Self::Booting | Self::Joining | Self::Proving | Self::Up | Self::Taking,
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

/// Whether electricity flows, as the provider sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum PowerState {
    /// It is on.
    On,
    /// It is off.
    Off,
    /// Nobody can tell.
    #[default]
    Unknown,
}

impl PowerState {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "ON",
            Self::Off => "OFF",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A phase that did not work out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MachineFailure {
    /// Which.
    pub phase: MachinePhase,
    /// Why, in words.
    pub why: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// What somebody says of a machine when it is added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineSpec {
    /// Who brings it up.
    pub provider: ProviderKind,
    /// What the provider calls it: the path of its Redfish system, its MAAS
    /// system id or `tag:NAME` for any machine with that tag. Its id unless
    /// told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub handle: String,
    /// Where its management is reached: the URL of a BMC or a MAAS region.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// The name of the credentials in the configuration to reach it with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credentials: String,
    /// Threads, where a machine is made to measure; measured once it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// MB, where a machine is made to measure; measured once it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
    /// GB of disk, where a machine is made to measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// What people say of it; its node has them too.
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
