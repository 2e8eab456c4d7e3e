//! What the REST API speaks: JSON in camel case, words of enums in capitals,
//! amounts in the units of the published documents, times in RFC 3339. The
//! server writes these and every client reads them, so both take them from
//! here.
//!
//! What a client sends has its own types. Fields that the server does not
//! know are refused by name, so that a slip of the pen is never taken for a
//! default.

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
pub use instance::{Instance, Wanted};
pub use machine::{
    AutoscalePlan, AutoscaleStep, Autoscaling, Headroom, HypervisorDrain, Machine, NewMachine,
    PowerAction, PowerRequest,
};
pub use node::{Node, NodeLimits, NodePatch, NodeStatus, UnknownInstance, UnreadableRecord};
pub use operation::{DrainRequest, Operation, OperationLine, OperationStatus, OperationStep};
pub use patch::{InstancePatch, WorkloadPatch};
pub use placement::{Placement, PlacementNode};
pub use problem::Problem;
pub use project::{NewProject, Project, ProjectDefaults, ProjectPatch, ProjectUse, Quota};
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
    Claim, HealthSpec, InstanceKind, InstanceState, PlacementRules, Resources, SecuritySpec,
};
pub use strata_types::machine::{
    Capability, MachineFailure, MachinePhase, MachineSpec, PowerState, ProviderKind,
};
pub use strata_types::pod::RestartPolicy;
pub use strata_types::storage::{
    DeviceResize, DeviceState, ExpandPlan, Pool, PoolDevice, PoolState, PoolVolume, Profile, Scrub,
    ShrinkPlan, VolumeKind, VolumeSnapshot,
};
pub use workload::Workload;

/// The media type of a change by RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// How many there are in all, beside a list that is a piece of it.
pub const TOTAL: &str = "x-total-count";
/// What makes a request that comes twice have its effect once.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
