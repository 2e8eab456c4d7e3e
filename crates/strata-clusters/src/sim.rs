//! Kubernetes that is only played, with knobs to have calls fail: for tests of
//! operations.
//!
//! It holds to the rules that the real one enforces (who may join, who may be
//! upgraded, when etcd decides) and answers with the same errors. What no
//! operation may ever try, it refuses and notes besides: [`Sim::violations`].
//!
//! A machine is up, and as clean as a new one, until somebody says otherwise:
//! [`Sim::set_up`] and [`Sim::wipe`] by hand, or [`Sim::follow`] once, when
//! machines are played elsewhere.

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
pub use world::{PlayedCluster, PlayedNode};

/// A driver that plays. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sim(Arc<Mutex<Stage>>);

/// Tells of a machine: which life it is in, or that it is down.
type Look = Box<dyn Fn(&str) -> Option<u64> + Send>;

#[derive(Default)]
struct Stage {
    world: World,
    faults: Faults,
    machines: Option<Look>,
}

/// How a call ended.
enum Ended<T> {
    Told(Result<T, DriverError>),
    /// Whoever called never hears of it.
    Died,
}

impl Sim {
    fn guard(&self) -> MutexGuard<'_, Stage> {
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

    /// Asks before every call how each machine is: `None` when it is down,
    /// otherwise the number of its life, which another one follows when it was
    /// wiped.
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

    /// Has a node tell another version of its kubelet.
    pub fn set_version(&self, cluster: &str, node: &str, version: KubernetesVersion) {
        self.node(cluster, node, |node| node.version = version);
    }

    fn node(&self, cluster: &str, node: &str, change: impl FnOnce(&mut PlayedNode)) {
        let mut stage = self.guard();
        let mut clusters = stage.world.clusters.values_mut();
        let found = clusters.find(|played| played.name == cluster);
        if let Some(node) = found.and_then(|played| played.nodes.get_mut(node)) {
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
    pub fn cluster(&self, name: &str) -> Option<PlayedCluster> {
        let stage = self.guard();
        let mut clusters = stage.world.clusters.values();
        clusters.find(|played| played.name == name).cloned()
    }

    /// The nodes of a cluster.
    pub fn nodes(&self, name: &str) -> BTreeMap<String, PlayedNode> {
        self.cluster(name)
            .map_or_else(BTreeMap::new, |played| played.nodes)
    }

    /// The names of all clusters.
    pub fn all_clusters(&self) -> Vec<String> {
        let stage = self.guard();
        let clusters = stage.world.clusters.values();
        clusters.map(|played| played.name.clone()).collect()
    }

    /// Everything that is still there of any cluster: clusters, snapshots, and
    /// machines with something on them. Empty when all was cleaned up.
    pub fn leftovers(&self) -> Vec<String> {
        let mut stage = self.guard();
        stage.look();
        stage.world.leftovers()
    }

    /// Whether every node that is up was told of every other.
    pub fn is_acquainted(&self, name: &str) -> bool {
        let stage = self.guard();
        let mut clusters = stage.world.clusters.values();
        let found = clusters.find(|played| played.name == name);
        found.is_some_and(|played| stage.world.is_acquainted(played))
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
    ) -> Ended<T> {
        let mut stage = self.guard();
        if !machine.is_empty() {
            stage.world.machine(machine);
        }
        stage.look();
        let fault = stage.faults.next(name, machine);
        match fault {
            Fault::Before => return Ended::Told(Err(fault::lost(name, machine))),
            Fault::Refused => {
                let why = format!("{name} {machine}: played to be refused");
                return Ended::Told(Err(DriverError::Refused(why)));
            }
            Fault::DieBefore => return Ended::Died,
            Fault::None | Fault::After | Fault::DieAfter => {}
        }
        let done = act(&mut stage.world);
        match fault {
            Fault::After => Ended::Told(done.and(Err(fault::lost(name, machine)))),
            Fault::DieAfter => Ended::Died,
            _ => Ended::Told(done),
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
            Ended::Told(result) => result,
            Ended::Died => std::future::pending().await,
        }
    }

    /// The same for one that answers at once, and so cannot be cut off.
    fn call_now<T>(
        &self,
        name: &str,
        act: impl FnOnce(&mut World) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        match self.run(name, "", act) {
            Ended::Told(result) => result,
            Ended::Died => Err(fault::lost(name, "")),
        }
    }
}

impl Stage {
    /// Looks how the machines are.
    fn look(&mut self) {
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
