//! Kubernetes that is only simulated, with knobs to have calls fail: for tests of
//! operations.
//!
//! It holds to the rules that the real one enforces (which machine may join,
//! which may be upgraded, when etcd decides) and answers with the same errors.
//! What no operation may ever try, it refuses and notes besides:
//! [`Sim::violations`].
//!
//! A machine is up, and as clean as a new one, until a test changes that:
//! [`Sim::set_up`] and [`Sim::wipe`] by hand, or [`Sim::follow`] once, when
//! machines are simulated elsewhere.

mod driver;
mod fault;
mod members;
mod upgrades;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_types::cluster::KubernetesVersion;

use crate::{Blocker, DriverError};
pub use fault::Fault;
use fault::Faults;
use world::World;
pub use world::{SimulatedCluster, SimulatedNode};

/// A driver that simulates. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sim(Arc<Mutex<SimState>>);

/// Reports a machine: which life it is in, or that it is down.
type MachineProbe = Box<dyn Fn(&str) -> Option<u64> + Send>;

#[derive(Default)]
struct SimState {
    world: World,
    faults: Faults,
    machines: Option<MachineProbe>,
}

/// How a call ended.
enum CallResult<T> {
    Reported(Result<T, DriverError>),
    /// The caller never receives the answer.
    Crashed,
}

impl Sim {
    fn guard(&self) -> MutexGuard<'_, SimState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches a machine on or off. What is on it stays.
    pub fn set_up(&self, machine: &str, up: bool) {
        self.guard().world.machine(machine).up = up;
    }

    /// Erases what is on a machine.
    pub fn wipe(&self, machine: &str) {
        self.guard().world.machine(machine).holds = None;
    }

    /// Has `machines` called before every call for the state of each machine:
    /// `None` when it is down, otherwise the number of its life, which another
    /// one follows when it was wiped.
    pub fn follow(&self, machines: impl Fn(&str) -> Option<u64> + Send + 'static) {
        self.guard().machines = Some(Box::new(machines));
    }

    /// Has a node be not ready for a reason, or ready again.
    pub fn set_unwell(&self, cluster: &str, node: &str, reason: Option<&str>) {
        self.node(cluster, node, |node| node.unwell = reason.map(Into::into));
    }

    /// Marks a node to go first, or not.
    pub fn set_marked(&self, cluster: &str, node: &str, marked: bool) {
        self.node(cluster, node, |node| node.marked = marked);
    }

    /// Puts so many pods on a node.
    pub fn set_pods(&self, cluster: &str, node: &str, pods: u32) {
        self.node(cluster, node, |node| node.pods = pods);
    }

    /// Has a node report another version of its kubelet.
    pub fn set_version(&self, cluster: &str, node: &str, version: KubernetesVersion) {
        self.node(cluster, node, |node| node.version = version);
    }

    fn node(&self, cluster: &str, node: &str, change: impl FnOnce(&mut SimulatedNode)) {
        let mut state = self.guard();
        let mut clusters = state.world.clusters.values_mut();
        let found = clusters.find(|simulated| simulated.name == cluster);
        if let Some(node) = found.and_then(|simulated| simulated.nodes.get_mut(node)) {
            change(node);
        }
    }

    /// Has pods of the system be broken.
    pub fn set_broken_pods(&self, pods: &[&str]) {
        let pods = pods.iter().map(ToString::to_string);
        self.guard().world.broken_pods = pods.collect();
    }

    /// Has so many drains wait for a disruption budget.
    pub fn set_slow_drains(&self, drains: u32) {
        self.guard().world.slow_drains = drains;
    }

    /// Has a preflight find these.
    pub fn set_blockers(&self, blockers: Vec<Blocker>) {
        self.guard().world.blockers = blockers;
    }

    /// Has the certificates on a machine end soon.
    pub fn set_ageing(&self, machine: &str) {
        self.guard().world.machine(machine).ageing = true;
    }

    /// A cluster by its name, as it is.
    pub fn cluster(&self, name: &str) -> Option<SimulatedCluster> {
        let state = self.guard();
        let mut clusters = state.world.clusters.values();
        clusters.find(|simulated| simulated.name == name).cloned()
    }

    /// The nodes of a cluster.
    pub fn nodes(&self, name: &str) -> BTreeMap<String, SimulatedNode> {
        self.cluster(name)
            .map_or_else(BTreeMap::new, |simulated| simulated.nodes)
    }

    /// The names of all clusters.
    pub fn all_clusters(&self) -> Vec<String> {
        let state = self.guard();
        let clusters = state.world.clusters.values();
        clusters.map(|simulated| simulated.name.clone()).collect()
    }

    /// Everything that is still there of any cluster: clusters, snapshots, and
    /// machines with something on them. Empty when all was cleaned up.
    pub fn leftovers(&self) -> Vec<String> {
        let mut state = self.guard();
        state.sync_machines();
        state.world.leftovers()
    }

    /// Whether every node that is up was sent every other.
    pub fn peers_are_current(&self, name: &str) -> bool {
        let state = self.guard();
        let mut clusters = state.world.clusters.values();
        let found = clusters.find(|simulated| simulated.name == name);
        found.is_some_and(|simulated| state.world.peers_are_current(simulated))
    }

    /// What was tried that no operation may try. To be empty at every end.
    pub fn violations(&self) -> Vec<String> {
        self.guard().world.violations.clone()
    }

    /// Runs one call, with what goes wrong.
    fn run<T>(
        &self,
        name: &str,
        machine: &str,
        act: impl FnOnce(&mut World) -> Result<T, DriverError>,
    ) -> CallResult<T> {
        let mut state = self.guard();
        if !machine.is_empty() {
            state.world.machine(machine);
        }
        state.sync_machines();
        let fault = state.faults.next(name, machine);
        match fault {
            Fault::Before => return CallResult::Reported(Err(fault::lost(name, machine))),
            Fault::Refused => {
                let why = format!("{name} {machine}: simulated refusal");
                return CallResult::Reported(Err(DriverError::Refused(why)));
            }
            Fault::CrashBefore => return CallResult::Crashed,
            Fault::None | Fault::After | Fault::CrashAfter => {}
        }
        let done = act(&mut state.world);
        match fault {
            Fault::After => CallResult::Reported(done.and(Err(fault::lost(name, machine)))),
            Fault::CrashAfter => CallResult::Crashed,
            _ => CallResult::Reported(done),
        }
    }

    /// The same for a call that is waited for.
    async fn call<T>(
        &self,
        name: &str,
        machine: &str,
        act: impl FnOnce(&mut World) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        match self.run(name, machine, act) {
            CallResult::Reported(result) => result,
            CallResult::Crashed => std::future::pending().await,
        }
    }

    /// The same for one that answers at once, and so cannot be cut off.
    fn call_now<T>(
        &self,
        name: &str,
        act: impl FnOnce(&mut World) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        match self.run(name, "", act) {
            CallResult::Reported(result) => result,
            CallResult::Crashed => Err(fault::lost(name, "")),
        }
    }
}

impl SimState {
    /// Reads the state of the machines.
    fn sync_machines(&mut self) {
        let Some(machines) = &self.machines else {
            return;
        };
        for (name, machine) in &mut self.world.machines {
            let life = machines(name);
            machine.up = life.is_some();
            if let Some(life) = life.filter(|life| *life != machine.life) {
                (machine.life, machine.holds) = (life, None);
            }
        }
    }
}
