//! Types of the REST API: JSON in camel case, enums in upper case, amounts in
//! the units of the published documents, timestamps in RFC 3339. Server and
//! clients share them.
//!
//! Request bodies have their own types. Unknown fields are rejected by name, so
//! that a misspelt field is never mistaken for a default.

mod backup;
mod ca;
mod certificate;
mod cluster;
mod event;
mod exec;
mod input;
mod instance;
mod machine;
mod node;
mod operation;
mod patch;
mod placement;
mod problem;
mod project;
mod secret;
mod storage;
mod workload;

pub use backup::{NewBackup, PruneKept, PrunePlan, PruneRequest, VerifyRequest};
pub use ca::{CaRoot, CaStepRequest, CertificateAuthority, RetireCaRequest};
pub use certificate::{Certificate, RevokeRequest, RevokeResult};
pub use cluster::{
    Cluster, ClusterNode, ClusterPlan, ClusterSnapshot, Kubeconfig, KubeconfigRequest,
    KubernetesBundle, NewCluster, PlannedMachine, PoolStatus, RestoreCluster, ScalePool,
    UpgradeBlocker, UpgradePlan, UpgradeRequest, UpgradeStep, UpgradeTargets,
};
pub use event::Event;
pub use exec::{ExecRequest, ExecResult};
pub use input::{NewInstance, NewWorkload, ResourcesInput};
pub use instance::Instance;
pub use machine::{
    AutoscalePlan, AutoscaleStep, Autoscaling, Headroom, HypervisorDrain, Machine, NewMachine,
    PowerAction, PowerRequest,
};
pub use node::{Node, NodeLimits, NodePatch, NodeStatus, UnknownInstance, UnreadableRecord};
pub use operation::{DrainRequest, Operation, OperationLine, OperationStatus, OperationStep};
pub use patch::{InstancePatch, WorkloadPatch};
pub use placement::{Placement, PlacementNode};
pub use problem::Problem;
pub use project::{NewProject, Project, ProjectPatch};
pub use secret::{NewSecret, Secret, SecretPatch};
pub use storage::{
    ExpandRequest, NewDevice, NewPoolVolume, NewSnapshot, PoolVolumePatch, ReplaceRequest,
    ShrinkRequest,
};
pub use strata_types::backup::{Backup, BackupSchedule, RestoreRequest, Retention};
pub use strata_types::cluster::{
    ClusterRole, ClusterSpec, ClusterStatus, ControlPlane, InstanceType, NodePool, PodSecurityLevel,
};
pub use strata_types::instance::{
    Claim, DesiredState, HealthSpec, InstanceKind, InstanceState, PlacementRules, Resources,
    SecuritySpec,
};
pub use strata_types::machine::{
    Capability, MachineFailure, MachinePhase, MachineSpec, PowerState, ProviderKind,
};
pub use strata_types::pod::RestartPolicy;
pub use strata_types::project::{ProjectDefaults, ProjectUse, Quota};
pub use strata_types::storage::{
    DeviceResize, DeviceState, ExpandPlan, Pool, PoolDevice, PoolState, PoolVolume, Profile, Scrub,
    ShrinkPlan, VolumeKind, VolumeSnapshot,
};
pub use workload::Workload;

/// Media type of a JSON merge patch, RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Header with the total number of items, beside one page of a list.
pub const TOTAL: &str = "x-total-count";
/// Header that makes a repeated request take effect once.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
