//! Amounts: what a node offers, what an instance takes, what is measured.
//!
//! Whole numbers only. A sum of reservations that is added to and taken from
//! a million times must come back to exactly what it was.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// No single amount is larger: 128 TiB, or 140 billion cores. It keeps sums far
/// from overflow whatever a caller requests.
const MAX_AMOUNT: u64 = 1 << 47;

/// Cpu, memory and disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// In thousandths of a core.
    pub cpu: u64,
    /// In bytes.
    pub memory: u64,
    /// In bytes.
    pub disk: u64,
}

impl Resources {
    pub const NONE: Self = Self {
        cpu: 0,
        memory: 0,
        disk: 0,
    };

    /// Thousandths of a core, bytes of memory, bytes of disk.
    #[must_use]
    pub fn new(cpu: u64, memory: u64, disk: u64) -> Self {
        Self { cpu, memory, disk }
    }

    /// Whether all of it is there in `room`.
    #[must_use]
    pub fn fits_in(&self, room: &Self) -> bool {
        self.cpu <= room.cpu && self.memory <= room.memory && self.disk <= room.disk
    }

    pub(crate) fn clamped(self) -> Self {
        self.map(|amount| amount.min(MAX_AMOUNT))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        *self = self.minus(other);
    }

    /// What is left of it; nothing rather than less than nothing.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    pub(crate) fn least(&self, other: &Self) -> Self {
        self.zip(other, u64::min)
    }

    pub(crate) fn map(&self, each: impl Fn(u64) -> u64) -> Self {
        Self {
            cpu: each(self.cpu),
            memory: each(self.memory),
            disk: each(self.disk),
        }
    }

    pub(crate) fn zip(&self, other: &Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu: each(self.cpu, other.cpu),
            memory: each(self.memory, other.memory),
            disk: each(self.disk, other.disk),
        }
    }
}

/// Which transport a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A port of the node itself. One instance per node can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    pub port: u16,
    pub protocol: Protocol,
}

impl HostPort {
    /// A TCP port.
    #[must_use]
    pub fn tcp(port: u16) -> Self {
        Self {
            port,
            protocol: Protocol::Tcp,
        }
    }

    /// A UDP port.
    #[must_use]
    pub fn udp(port: u16) -> Self {
        Self {
            port,
            protocol: Protocol::Udp,
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{}/{protocol}", self.port)
    }
}

/// A number of GPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gpus {
    /// What they are, for example `a100`.
    pub kind: String,
    /// The number of them.
    pub count: u32,
}

/// GPUs that an instance needs. All come from one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GpuDemand {
    /// The number of them.
    pub count: u32,
    /// Which kind; any when absent.
    pub kind: Option<String>,
}

impl GpuDemand {
    pub(crate) fn accepts(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted == kind)
    }
}
