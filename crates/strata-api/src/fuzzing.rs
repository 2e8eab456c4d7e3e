//! Messages of callers and nodes, and bodies of the REST API: fuzzed by
//! `fuzz/`.

use prost::Message;
use serde::de::DeserializeOwned;
use strata_types::cluster::ControlPlane;
use strata_types::instance::{InstanceSpec, Resources};
use strata_types::pod::PodSpec;
use strata_types::{CellSpec, ExecutableSpec};

use crate::strata::v1;
use crate::{instance_fields, kaas, rest, runtime, scheduler, take_input};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire_cell", wire_cell),
    ("wire_executable", wire_executable),
    ("wire_pod", wire_pod),
    ("wire_node", wire_node),
    ("wire_cluster", wire_cluster),
    ("rest_body", rest_body),
];

fn wire_cell(data: &[u8]) {
    if let Ok(cell) = runtime::Cell::decode(data)
        && let Ok(spec) = CellSpec::try_from(cell)
    {
        let _ = v1::CellOptions::from(&spec);
    }
}

fn wire_executable(data: &[u8]) {
    if let Ok(mut executable) = runtime::Executable::decode(data) {
        let _ = take_input(&mut executable);
        if let Ok(spec) = ExecutableSpec::try_from(executable) {
            let _ = v1::ExecutableOptions::from(&spec);
        }
    }
}

/// What is taken is told as it would be taken again.
fn wire_pod(data: &[u8]) {
    if let Ok(pod) = v1::PodSpec::decode(data)
        && let Ok(spec) = PodSpec::try_from(pod)
    {
        let again = PodSpec::try_from(v1::PodSpec::from(&spec));
        assert_eq!(again.ok(), Some(spec));
    }
}

/// What a node reports of itself and of its instances.
fn wire_node(data: &[u8]) {
    if let Ok(status) = scheduler::InstanceStatus::decode(data) {
        let state = instance_fields::state_from_scheduler(status.status());
        let _ = instance_fields::state_to_controller(state);
    }
    if let Ok(instance) = scheduler::Instance::decode(data) {
        let _ = instance_fields::kind_from_scheduler(instance.r#type());
    }
    if let Ok(amounts) = scheduler::ResourceSummary::decode(data) {
        let amounts = Resources::from(amounts);
        let _ = (amounts.check("resources"), amounts.to_string());
        let _ = (amounts.memory_bytes(), amounts.disk_bytes());
    }
}

fn wire_cluster(data: &[u8]) {
    if let Ok(wanted) = kaas::CreateClusterMsg::decode(data) {
        if let Some(plane) = wanted.control_plane_nodes {
            let _ = ControlPlane::try_from(plane);
        }
        for (at, pool) in wanted.worker_node_pools.into_iter().enumerate() {
            let _ = pool.into_pool(at);
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) {
    let _ = serde_json::from_slice::<T>(body);
}

fn rest_body(data: &[u8]) {
    if let Ok(spec) = serde_json::from_slice::<InstanceSpec>(data) {
        let _ = spec.check();
    }
    read::<rest::NodePatch>(data);
    read::<rest::NewProject>(data);
    read::<rest::NewCluster>(data);
    read::<rest::NewBackup>(data);
    read::<rest::BackupSchedule>(data);
    read::<rest::PruneRequest>(data);
    read::<rest::NewPoolVolume>(data);
    read::<rest::ExecRequest>(data);
    read::<rest::RevokeRequest>(data);
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
