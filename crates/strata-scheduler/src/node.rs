//! A node as placement sees it.

use crate::{Gpus, HostPort, Kind, Labels, Resources};

/// A handle of a node in one fleet. It may be given to another node after the
/// first was removed, so names, not handles, belong into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }
}

/// Whether a node takes instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeState {
    #[default]
    Ready,
    /// No: it is being emptied.
    Draining,
    /// No: the node was silent for too long.
    Lost,
    /// Not yet: it reports that it is starting. What it has stays there.
    Starting,
    /// No: it reports its status, and did not take what was assigned to it.
    StatusOnly,
}

/// How much more than it has a node may promise, in thousandths: 1000 promises
/// what is there, 2000 twice as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Overcommit {
    /// Of its cores.
    pub cpu: u32,
    pub memory: u32,
    pub disk: u32,
}

impl Default for Overcommit {
    fn default() -> Self {
        Self {
            cpu: 1000,
            memory: 1000,
            disk: 1000,
        }
    }
}

impl Overcommit {
    /// What may be promised of `amount`.
    pub(crate) fn of(&self, amount: &Resources) -> Resources {
        Resources {
            cpu: thousandths(amount.cpu, self.cpu),
            memory: thousandths(amount.memory, self.memory),
            disk: thousandths(amount.disk, self.disk),
        }
    }
}

/// `amount` times `factor` thousandths, rounded down.
pub(crate) fn thousandths(amount: u64, factor: u32) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(factor) / 1000).unwrap_or(u64::MAX)
}

/// What a node is and offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, unique in the fleet.
    pub name: String,
    pub labels: Labels,
    /// What it offers to instances: what the system needs is taken off.
    pub capacity: Resources,
    /// Its GPUs, a kind at most once.
    pub gpus: Vec<Gpus>,
    /// What it can run.
    pub runs: Vec<Kind>,
    /// How much of its capacity may be promised.
    pub overcommit: Overcommit,
    /// By how many thousandths measured use is taken as higher than it is, for
    /// it was measured in the past.
    pub headroom: u32,
    /// Ports that the node itself uses.
    pub ports: Vec<HostPort>,
    /// The node on whose host it is, where that is not a host of its own.
    pub host: Option<String>,
    /// Whether it takes all that it offers of that host, instances or not.
    pub dedicated: bool,
}

impl NodeSpec {
    /// A node that runs containers and VMs, promises what it has, and takes
    /// measured use as 10 % higher.
    #[must_use]
    pub fn new(name: impl Into<String>, capacity: Resources) -> Self {
        Self {
            name: name.into(),
            labels: Labels::new(),
            capacity,
            gpus: Vec::new(),
            runs: vec![Kind::Container, Kind::Vm],
            overcommit: Overcommit::default(),
            headroom: 100,
            ports: Vec::new(),
            host: None,
            dedicated: false,
        }
    }

    /// The same on the host of another node.
    #[must_use]
    pub fn nested_in(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// The same with one more label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}
