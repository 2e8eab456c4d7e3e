//! Members, nodes and clusters that tests are about.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strata_clusters::{Observed, ObservedNode};
use strata_types::cluster::{
    ClusterRole, ClusterSpec, ControlPlane, InstanceType, KubernetesVersion, Member, NodePool,
};

/// A version by its text.
pub(crate) fn v(text: &str) -> KubernetesVersion {
    text.parse().unwrap()
}

/// Any version that is near others.
pub(crate) fn version() -> impl Strategy<Value = KubernetesVersion> {
    (0u16..10, 30u16..37, 0u16..4)
        .prop_map(|(major, minor, patch)| KubernetesVersion::new(1 + major / 9, minor, patch))
}

/// A member that has joined.
pub(crate) fn member(machine: &str, role: ClusterRole, pool: &str, number: u8) -> Member {
    Member {
        machine: machine.parse().unwrap(),
        role,
        pool: pool.into(),
        number,
        labels: BTreeMap::new(),
        version: v("v1.34.4"),
        address: String::new(),
        joined: true,
        added_at_ms: i64::from(number),
    }
}

/// A member of the control plane.
pub(crate) fn control(number: u8) -> Member {
    member(
        &format!("cp-{number}"),
        ClusterRole::ControlPlane,
        "",
        number,
    )
}

/// A worker.
pub(crate) fn worker(pool: &str, number: u8) -> Member {
    member(&format!("w-{number}"), ClusterRole::Worker, pool, number)
}

/// A pool.
pub(crate) fn pool(name: &str, count: u32) -> NodePool {
    NodePool {
        name: name.into(),
        count,
        instance_type: InstanceType::Standard,
        labels: BTreeMap::new(),
    }
}

/// The specification of a cluster.
pub(crate) fn spec(controls: u32, pools: Vec<NodePool>) -> ClusterSpec {
    ClusterSpec {
        version: v("v1.34.4"),
        control_plane: ControlPlane {
            count: controls,
            instance_type: InstanceType::Standard,
            labels: BTreeMap::new(),
            pod_security: None,
        },
        pools,
    }
}

/// All are ready.
pub(crate) fn all_well(members: &[Member]) -> Observed {
    let joined = || members.iter().filter(|member| member.joined);
    let controls = joined().filter(|member| member.role == ClusterRole::ControlPlane);
    Observed {
        serves: true,
        version: "v1.34.4".into(),
        nodes: joined()
            .map(|member| ObservedNode {
                name: member.machine.as_str().into(),
                ready: true,
                version: member.version.to_string(),
                ..ObservedNode::default()
            })
            .collect(),
        etcd: controls
            .map(|member| (member.machine.as_str().to_owned(), true))
            .collect(),
        ..Observed::default()
    }
}

/// Any members, with numbers and machines of their own.
pub(crate) fn any_members() -> impl Strategy<Value = Vec<Member>> {
    let one = (0u8..4, 0usize..3, any::<bool>(), 0i64..5, version());
    proptest::collection::vec(one, 0..14).prop_map(|all| {
        let all = all.into_iter().zip(1u8..);
        all.map(|((role, at, joined, added, version), number)| {
            let mut member = match role {
                0 => control(number),
                _ => worker(["a", "b", "c"][at], number),
            };
            (member.joined, member.added_at_ms) = (joined || role == 0, added);
            member.version = version;
            member
        })
        .collect()
    })
}

/// Anything that could be seen of these members.
pub(crate) fn any_observation(
    members: Vec<Member>,
) -> impl Strategy<Value = (Vec<Member>, Observed)> {
    let each = (0u8..6, any::<bool>(), any::<bool>(), any::<bool>());
    let all = proptest::collection::vec(each, members.len());
    (Just(members), all, 0u8..8).prop_map(|(members, all, mood)| {
        let mut seen = all_well(&members);
        seen.serves = mood > 0;
        for (member, (node, marked, closed, answers)) in members.iter().zip(all) {
            let name = member.machine.as_str();
            if node == 0 {
                seen.nodes.retain(|node| node.name != name);
            }
            if let Some(it) = seen.nodes.iter_mut().find(|node| node.name == name) {
                (it.ready, it.marked, it.unschedulable) = (node > 1, marked, closed);
            }
            if let Some(etcd) = seen.etcd.get_mut(name) {
                *etcd = answers || node > 3;
            }
        }
        if mood == 1 {
            seen.etcd.clear();
        }
        if mood == 2 {
            seen.broken_pods.push("kube-system/coredns-1".into());
        }
        (members, seen)
    })
}
