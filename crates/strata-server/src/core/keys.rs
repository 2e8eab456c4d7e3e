//! Where records are in the store. Nothing else spells a key.

use strata_types::Label;
use strata_types::instance::InstanceId;

pub(crate) const SCHEMA: &str = "schema";
pub(crate) const INSTANCES: &str = "instance/";
pub(crate) const WORKLOADS: &str = "workload/";
pub(crate) const NODES: &str = "node/";
pub(crate) const PROJECTS: &str = "project/";
pub(crate) const MACHINES: &str = "machine/";
pub(crate) const CLUSTERS: &str = "cluster/";
/// The id of this control plane.
pub(crate) const RUN: &str = "run";
/// When backups are made.
pub(crate) const SCHEDULES: &str = "backup-schedule/";
/// How much room hypervisors are kept for.
pub(crate) const AUTOSCALING: &str = "autoscaling";

pub(crate) fn instance(id: &InstanceId) -> String {
    format!("{INSTANCES}{id}")
}

pub(crate) fn workload(id: &InstanceId) -> String {
    format!("{WORKLOADS}{id}")
}

pub(crate) fn node(name: &str) -> String {
    format!("{NODES}{name}")
}

pub(crate) fn machine(id: &Label) -> String {
    format!("{MACHINES}{id}")
}

pub(crate) fn cluster(name: &Label) -> String {
    format!("{CLUSTERS}{name}")
}

/// Its authorities and keys, apart from what everybody reads.
pub(crate) fn cluster_secrets(name: &Label) -> String {
    format!("cluster-secrets/{name}")
}

/// Holds a port of this server for the cluster that is reached there.
pub(crate) fn cluster_port(port: u16) -> String {
    format!("cluster-port/{port}")
}

pub(crate) fn schedule(name: &Label) -> String {
    format!("{SCHEDULES}{name}")
}

pub(crate) fn project(name: &Label) -> String {
    format!("{PROJECTS}{name}")
}

/// Holds the name of an instance for its id.
pub(crate) fn instance_name(project: &Label, name: &Label) -> String {
    format!("instance-name/{project}/{name}")
}

/// Holds the name of a workload for its id.
pub(crate) fn workload_name(project: &Label, name: &Label) -> String {
    format!("workload-name/{project}/{name}")
}

/// Holds a subnet for the node that has it.
pub(crate) fn subnet(subnet: &str) -> String {
    format!("subnet/{}", subnet.replace('/', "-"))
}

/// What was answered to a request that may come twice.
pub(crate) fn idempotency(caller: &str, key: &str) -> String {
    format!("idempotency/{caller}/{key}")
}
