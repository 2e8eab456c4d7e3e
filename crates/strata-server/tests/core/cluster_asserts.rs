//! What holds of clusters at every rest: no machine is lost, none is used
//! twice, records report what is.

use std::collections::{BTreeMap, BTreeSet};

use strata_server::core::Work;
use strata_types::cluster::ClusterRole;
use strata_types::machine::MachinePhase;

use crate::cluster_world::ClusterWorld;

impl ClusterWorld {
    /// What holds whenever nothing is under way: every machine is a cluster's
    /// or free, and as it should be then; no forbidden call was made.
    pub(crate) fn assert_owned(&self) {
        assert_eq!(self.kubernetes.violations(), Vec::<String>::new());
        assert_eq!(self.machines.double_uses(), 0);
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for cluster in self.core.clusters() {
            // One whose deletion was cancelled is deleted by the next one.
            let rests = matches!(cluster.work, Work::Idle | Work::Deleting);
            assert!(rests, "{cluster:?}");
            assert!(
                cluster.leaving.is_empty() && cluster.scaled_from.is_empty(),
                "{cluster:?}"
            );
            let numbers: BTreeSet<u8> = cluster.members.iter().map(|it| it.number).collect();
            assert_eq!(numbers.len(), cluster.members.len(), "{cluster:?}");
            for member in &cluster.members {
                let twice = owners.insert(member.machine.to_string(), cluster.name.to_string());
                assert_eq!(twice, None, "{member:?}");
            }
        }
        for machine in self.core.machines() {
            let id = machine.id.as_str();
            let owner = machine.cluster.as_ref().map(ToString::to_string);
            assert_eq!(owner.as_ref(), owners.get(id), "{id}: {machine:?}");
            if owner.is_none() {
                let simulated = self.machines.machines()[id].clone();
                assert_eq!(machine.phase, MachinePhase::Available, "{id}");
                assert!(self.core.node(id).is_err(), "{id} has a node");
                assert!(
                    simulated.tag.is_none() && !simulated.on && !simulated.dirty,
                    "{id}: {simulated:?}"
                );
                self.kubernetes.wipe(id);
            }
        }
    }

    /// A cluster is just as its record says, and that is what was requested.
    pub(crate) fn assert_whole(&self, name: &str) {
        self.assert_owned();
        let cluster = self.cluster(name);
        assert_eq!(cluster.failure, None);
        let count = |role: ClusterRole, pool: &str| {
            let members = cluster.members.iter();
            let of = members.filter(|it| it.role == role && it.pool == pool);
            u32::try_from(of.count()).unwrap()
        };
        let control = count(ClusterRole::ControlPlane, "");
        assert_eq!(control, cluster.spec.control_plane.count);
        let mut all = control;
        for pool in &cluster.spec.pools {
            assert_eq!(
                count(ClusterRole::Worker, &pool.name),
                pool.count,
                "{cluster:?}"
            );
            all += pool.count;
        }
        assert_eq!(cluster.members.len(), all as usize, "{cluster:?}");
        let simulated = self.kubernetes.cluster(name).unwrap();
        assert_eq!(simulated.id, cluster.id);
        assert_eq!(simulated.version, cluster.spec.version);
        let nodes: BTreeSet<_> = simulated.nodes.keys().cloned().collect();
        let machines = cluster.members.iter().map(|it| it.machine.to_string());
        assert_eq!(nodes, machines.collect());
        let control = cluster
            .members
            .iter()
            .filter(|it| it.role == ClusterRole::ControlPlane);
        let control: BTreeSet<_> = control.map(|it| it.machine.to_string()).collect();
        assert_eq!(simulated.etcd, control);
        for member in &cluster.members {
            let id = member.machine.as_str();
            assert!(member.joined && !member.address.is_empty(), "{member:?}");
            assert_eq!(self.core.machine(id).unwrap().phase, MachinePhase::Up);
            assert!(
                self.core.node(id).unwrap().draining,
                "it takes no instances"
            );
            assert_eq!(simulated.nodes[id].version, member.version);
            assert!(!simulated.nodes[id].cordoned, "{id} is closed");
            assert_eq!(simulated.nodes[id].labels, member.labels);
        }
        assert!(self.kubernetes.peers_are_current(name));
    }

    /// No cluster is left, nor anything of one.
    pub(crate) fn assert_nothing(&self) {
        self.assert_owned();
        assert!(
            self.core
                .clusters()
                .iter()
                .all(|cluster| cluster.members.is_empty())
        );
        assert_eq!(self.kubernetes.leftovers(), Vec::<String>::new());
        assert_eq!(self.core.nodes().len(), 0);
    }
}
