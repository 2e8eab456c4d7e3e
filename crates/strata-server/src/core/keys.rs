//! Where records are in the store. Nothing else spells a key.

use strata_identity::Name;
use strata_types::instance::InstanceId;
use strata_types::{Label, Role};

/// Each server that runs, by its address, as long as it renews its lease.
pub(crate) const SERVERS: &str = "server/";
pub(crate) const SCHEMA: &str = "schema";
pub(crate) const INSTANCES: &str = "instance/";
pub(crate) const WORKLOADS: &str = "workload/";
pub(crate) const NODES: &str = "node/";
pub(crate) const PROJECTS: &str = "project/";
pub(crate) const SECRETS: &str = "secret/";
pub(crate) const MACHINES: &str = "machine/";
pub(crate) const CLUSTERS: &str = "cluster/";
/// Certificates that were issued, by serial.
pub(crate) const CERTIFICATES: &str = "certificate/";
/// What of them is refused.
pub(crate) const REVOCATIONS: &str = "revocation/";
/// The id of this control plane.
pub(crate) const RUN: &str = "run";
/// What the keys are made from that nodes share as witnesses.
pub(crate) const WITNESS_SECRET: &str = "witness-secret";
/// Written before a read of what is there now.
pub(crate) const CATCH_UP: &str = "catch-up";
/// The ends of the servers' audit logs.
const AUDIT_ANCHORS: &str = "audit-anchor/";
/// When backups are made.
pub(crate) const SCHEDULES: &str = "backup-schedule/";
/// How much room hypervisors are kept for.
pub(crate) const AUTOSCALING: &str = "autoscaling";

/// The kinds of records that every server has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Instance,
    Workload,
    Node,
    Project,
    Secret,
    Machine,
    Cluster,
    Certificate,
    Revocation,
}

impl RecordKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Instance,
        Self::Workload,
        Self::Node,
        Self::Project,
        Self::Secret,
        Self::Machine,
        Self::Cluster,
        Self::Certificate,
        Self::Revocation,
    ];

    /// What the keys of its records begin with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Instance => INSTANCES,
            Self::Workload => WORKLOADS,
            Self::Node => NODES,
            Self::Project => PROJECTS,
            Self::Secret => SECRETS,
            Self::Machine => MACHINES,
            Self::Cluster => CLUSTERS,
            Self::Certificate => CERTIFICATES,
            Self::Revocation => REVOCATIONS,
        }
    }

    /// The kind of the record with this key.
    pub(crate) fn of(key: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| key.starts_with(kind.prefix()))
    }
}

pub(crate) fn instance(id: &InstanceId) -> String {
    format!("{INSTANCES}{id}")
}

pub(crate) fn workload(id: &InstanceId) -> String {
    format!("{WORKLOADS}{id}")
}

pub(crate) fn node(name: &str) -> String {
    format!("{NODES}{name}")
}

/// What people have set for a node that left by itself.
pub(crate) fn departed_node(name: &str) -> String {
    format!("node-departed/{name}")
}

pub(crate) fn machine(id: &Label) -> String {
    format!("{MACHINES}{id}")
}

pub(crate) fn cluster(name: &Label) -> String {
    format!("{CLUSTERS}{name}")
}

pub(crate) fn certificate(serial: &str) -> String {
    format!("{CERTIFICATES}{serial}")
}

pub(crate) fn revoked_serial(serial: &str) -> String {
    format!("{REVOCATIONS}serial-{serial}")
}

pub(crate) fn revoked_key(key: &str) -> String {
    format!("{REVOCATIONS}key-{key}")
}

pub(crate) fn revoked_name(role: Role, name: &Name) -> String {
    format!("{REVOCATIONS}name-{role}-{name}")
}

pub(crate) fn audit_anchor(server: &str) -> String {
    format!("{AUDIT_ANCHORS}{server}")
}

pub(crate) fn revoked_role(role: Role) -> String {
    format!("{REVOCATIONS}role-{role}")
}

/// Its CAs and keys, apart from the record that every caller reads.
pub(crate) fn cluster_secrets(name: &Label) -> String {
    format!("cluster-secrets/{name}")
}

/// The names of clusters that were deleted.
pub(crate) const DELETED_CLUSTERS: &str = "cluster-deleted/";

/// That a cluster of this name was deleted, and by which operation.
pub(crate) fn deleted_cluster(name: &Label) -> String {
    format!("{DELETED_CLUSTERS}{name}")
}

/// Holds a port of this server for the cluster that is reached there.
pub(crate) fn cluster_port(port: u16) -> String {
    format!("cluster-port/{port}")
}

pub(crate) fn schedule(name: &Label) -> String {
    format!("{SCHEDULES}{name}")
}

pub(crate) fn secret(project: &Label, name: &Label) -> String {
    format!("{SECRETS}{project}/{name}")
}

pub(crate) fn project(name: &Label) -> String {
    format!("{PROJECTS}{name}")
}

/// That a project of this name was deleted, and when.
pub(crate) fn deleted_project(name: &Label) -> String {
    format!("project-deleted/{name}")
}

/// Holds the names of instances for their ids.
pub(crate) const INSTANCE_NAMES: &str = "instance-name/";

/// Holds the name of an instance for its id.
pub(crate) fn instance_name(project: &Label, name: &Label) -> String {
    format!("{INSTANCE_NAMES}{project}/{name}")
}

/// It was deleted while its node was away.
pub(crate) fn deleted_instance(id: &InstanceId) -> String {
    format!("instance-deleted/{id}")
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
