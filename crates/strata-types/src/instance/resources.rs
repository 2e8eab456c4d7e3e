//! Amounts in the units of the published APIs.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{InstanceKind, InstanceSpec};
use crate::Error;

/// Thousandths of a core of a virtual machine of which nothing is said.
pub const VM_DEFAULT_CPU: u64 = 1000;
/// Bytes of its memory.
pub const VM_DEFAULT_MEMORY: u64 = 512 << 20;
/// Bytes that the emulator of a virtual machine may use beside the memory of its
/// guest: 96 MiB for itself, and 128 MiB for code that it translated where it has
/// to. Nodes enforce it and placement counts it, with and without KVM alike.
pub const VM_OVERHEAD: u64 = 224 << 20;

/// CPU, memory and disk. As a limit, 0 means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// CPU in millicores.
    pub cpu: i32,
    /// Memory in MB (1,000,000 bytes).
    pub memory: i32,
    /// Disk in GB (1,000,000,000 bytes).
    pub disk: i32,
}

impl Resources {
    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        u64::try_from(self.memory).unwrap_or(0) * 1_000_000
    }

    /// Bytes of disk.
    pub fn disk_bytes(&self) -> u64 {
        u64::try_from(self.disk).unwrap_or(0) * 1_000_000_000
    }

    /// From thousandths of a core and bytes; what is there at all shows as at
    /// least 1 of memory, and disk is rounded to the nearest.
    pub fn from_amounts(cpu: u64, memory: u64, disk: u64) -> Self {
        let whole = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        Self {
            cpu: whole(cpu),
            memory: whole(memory.div_ceil(1_000_000)),
            disk: whole(disk.saturating_add(500_000_000) / 1_000_000_000),
        }
    }

    /// Refuses amounts below 0, and what no container could live with.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        for (name, amount) in [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("disk", self.disk),
        ] {
            if amount < 0 {
                let why = format!("is {amount}; it must not be less than 0");
                return Err(Error::invalid(format!("{field}.{name}"), why));
            }
        }
        let least = |name: &str, amount: i32, least: i32, unit: &str| {
            if (1..least).contains(&amount) {
                let why = format!("is {amount}; {least} {unit} is the least, and 0 is no limit");
                return Err(Error::invalid(format!("{field}.{name}"), why));
            }
            Ok(())
        };
        least("cpu", self.cpu, 10, "thousandths of a core")?;
        least("memory", self.memory, 5, "MB")
    }
}

impl InstanceSpec {
    /// What its node holds it to, and what is kept free for it there:
    /// thousandths of a core, bytes of memory, bytes of disk. A virtual machine
    /// of which nothing is said has what nodes make it with, and each takes what
    /// its emulator may use besides.
    pub fn reserves(&self) -> (u64, u64, u64) {
        let amounts = &self.resources;
        let cpu = u64::try_from(amounts.cpu).unwrap_or(0);
        let (memory, disk) = (amounts.memory_bytes(), amounts.disk_bytes());
        let or = |amount: u64, default: u64| if amount == 0 { default } else { amount };
        match self.kind {
            InstanceKind::Container => (cpu, memory, disk),
            InstanceKind::Vm => (
                or(cpu, VM_DEFAULT_CPU),
                or(memory, VM_DEFAULT_MEMORY) + VM_OVERHEAD,
                disk,
            ),
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cpu {}, memory {} MB, disk {} GB",
            self.cpu, self.memory, self.disk
        )
    }
}

/// Resource limits and measured usage of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Claim {
    /// Resource limits.
    pub max: Resources,
    /// Measured usage.
    pub usage: Resources,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_reserves_what_its_node_holds_it_to() {
        let mut spec = InstanceSpec {
            kind: InstanceKind::Vm,
            ..InstanceSpec::default()
        };
        assert_eq!(spec.reserves(), (1000, (512 << 20) + VM_OVERHEAD, 0));
        (spec.resources.cpu, spec.resources.memory) = (250, 256);
        assert_eq!(spec.reserves(), (250, 256_000_000 + VM_OVERHEAD, 0));
        spec.kind = InstanceKind::Container;
        assert_eq!(spec.reserves(), (250, 256_000_000, 0));
    }

    #[test]
    fn amounts_are_printed_in_api_units() {
        let resources = Resources::from_amounts(1500, 1, 1_400_000_000);
        assert_eq!(
            resources,
            Resources {
                cpu: 1500,
                memory: 1,
                disk: 1
            }
        );
        let most = Resources::from_amounts(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(most.cpu, i32::MAX);
        assert_eq!(
            Resources {
                memory: 512,
                ..resources
            }
            .memory_bytes(),
            512_000_000
        );
    }

    #[test]
    fn invalid_resources_are_refused_by_field() {
        for (resources, field) in [
            (
                Resources {
                    cpu: -1,
                    ..Resources::default()
                },
                "resources.cpu",
            ),
            (
                Resources {
                    cpu: 9,
                    ..Resources::default()
                },
                "resources.cpu",
            ),
            (
                Resources {
                    memory: 4,
                    ..Resources::default()
                },
                "resources.memory",
            ),
            (
                Resources {
                    disk: i32::MIN,
                    ..Resources::default()
                },
                "resources.disk",
            ),
        ] {
            let error = resources.check("resources").unwrap_err();
            assert_eq!(error.field(), Some(field));
        }
        assert!(Resources::default().check("resources").is_ok());
    }
}
