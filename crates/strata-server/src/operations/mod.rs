//! Long actions of the control plane, as durable operations: any server accepts
//! and shows them, the leader runs them.

mod backups;
mod cancel;
mod claimed;
mod clusters;
mod drain;
mod hypervisors;
mod storage;

use std::sync::Arc;

use strata_store::Store;
use strata_tasks::TaskGroup;
use strata_types::{Error, ErrorKind, Result};
use strata_workflow::{End, Operations, Registry, Settings, StepError, Workflow, WorkflowError};

use crate::core::{Core, Lead};
pub(crate) use backups::POOL;
pub use backups::{
    BackupInput, BackupTarget, Backups, CreateBackup, PruneBackups, PruneInput, RestoreBackup,
    RestoreInput, VerifyBackup, VerifyInput, VolumeUseCheck,
};
pub(crate) use cancel::authorize_cancel;
pub(crate) use claimed::claimed;
pub(crate) use clusters::user_name;
pub use clusters::{
    ClusterObservation, ClusterSettings, Clusters, CreateCluster, CreateClusterInput,
    DeleteCluster, DeleteClusterInput, HealCluster, HealInput, NodeExec, ObservationCache,
    PoolChange, RenewCluster, RenewInput, RestoreCluster, RestoreClusterInput, ScaleCluster,
    ScaleInput, SnapshotCluster, SnapshotInput, UpgradeCluster, UpgradeInput,
};
pub(crate) use drain::input as drain_input;
pub use drain::{Drain, DrainInput};
pub(crate) use hypervisors::is_for;
pub use hypervisors::{
    CellProof, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HypervisorProof,
    Hypervisors, JoinTokens, SwitchInput, SwitchMachine,
};
pub(crate) use storage::bytes as amount;
pub use storage::{
    ExpandInput, ExpandStorage, ReplaceDevice, ReplaceInput, ScrubInput, ScrubStorage, ShrinkInput,
    ShrinkStorage, Storage,
};

/// What operations work on, beyond the records. Cheap to clone.
#[derive(Clone)]
pub struct Backends {
    /// What brings machines up and down.
    pub hypervisors: Hypervisors,
    pub storage: Storage,
    /// Where backups go.
    pub backups: Backups,
    pub clusters: Clusters,
}

impl Backends {
    /// Of a control plane that has none of it.
    pub fn none(core: &Core) -> Self {
        Self {
            hypervisors: Hypervisors::none(core.clone()),
            storage: Storage::none(),
            backups: Backups {
                storage: Storage::none(),
                store: core.shared_store(),
                engine: core.shared_store(),
                target: None,
                resting: Arc::new(|_| Ok(())),
            },
            clusters: Clusters::none(core.clone()),
        }
    }
}

/// Knows every kind of operation, and runs them while this server leads.
pub fn start(
    core: &Core,
    backends: &Backends,
    store: Arc<dyn Store>,
    tasks: impl Into<TaskGroup>,
) -> Result<Operations> {
    let mut registry = Registry::new();
    let hypervisors = Arc::new(backends.hypervisors.clone());
    let storage = Arc::new(backends.storage.clone());
    let backups = Arc::new(backends.backups.clone());
    let clusters = Arc::new(backends.clusters.clone());
    registry
        .register(Drain, Arc::new(core.clone()))
        .and_then(|()| registry.register(CreateHypervisor, hypervisors.clone()))
        .and_then(|()| registry.register(DestroyHypervisor, hypervisors.clone()))
        .and_then(|()| registry.register(SwitchMachine, hypervisors))
        .and_then(|()| registry.register(ExpandStorage, storage.clone()))
        .and_then(|()| registry.register(ShrinkStorage, storage.clone()))
        .and_then(|()| registry.register(ReplaceDevice, storage.clone()))
        .and_then(|()| registry.register(ScrubStorage, storage))
        .and_then(|()| registry.register(CreateBackup, backups.clone()))
        .and_then(|()| registry.register(RestoreBackup, backups.clone()))
        .and_then(|()| registry.register(VerifyBackup, backups.clone()))
        .and_then(|()| registry.register(PruneBackups, backups))
        .and_then(|()| registry.register(CreateCluster, clusters.clone()))
        .and_then(|()| registry.register(DeleteCluster, clusters.clone()))
        .and_then(|()| registry.register(ScaleCluster, clusters.clone()))
        .and_then(|()| registry.register(HealCluster, clusters.clone()))
        .and_then(|()| registry.register(UpgradeCluster, clusters.clone()))
        .and_then(|()| registry.register(SnapshotCluster, clusters.clone()))
        .and_then(|()| registry.register(RenewCluster, clusters.clone()))
        .and_then(|()| registry.register(RestoreCluster, clusters))
        .map_err(|error| public(&error))?;
    let operations = Operations::new(store, registry);
    // Clusters begin operations of machines; those are only there now.
    drop(backends.clusters.operations.set(operations.clone()));
    let (core, running) = (core.clone(), operations.clone());
    tasks.into().restart("operations", move || {
        let (core, running) = (core.clone(), running.clone());
        async move { run(&core, &running).await }
    });
    Ok(operations)
}

/// Runs operations each time this server comes to lead, until it does not.
async fn run(core: &Core, operations: &Operations) {
    let mut lead = core.watch_lead();
    loop {
        let now = lead.borrow_and_update().clone();
        if let Lead::Leading(fence) = now {
            let settings = Settings {
                fence,
                // Those that wait for room must not keep those that make it.
                at_once: 256,
                ..Settings::default()
            };
            match Workflow::open(operations.clone(), settings).await {
                Ok(workflow) => {
                    tokio::select! {
                        end = workflow.ended() => match end {
                            End::Shutdown => {}
                            End::Deposed => tracing::info!("operations run on another server now"),
                            End::Crashed => tracing::error!("operation engine stopped"),
                        },
                        _ = lead.changed() => {}
                    }
                    workflow.shutdown().await;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "operation engine cannot start"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        } else if lead.changed().await.is_err() {
            return;
        }
    }
}

/// How a step goes on after an error: whether trying again may help.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn step_failed(error: Error) -> StepError {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Aborted => StepError::transient(error.to_string()),
        _ => StepError::permanent(error.to_string()),
    }
}

/// The public error: by what the caller can do about it.
pub fn public(error: &WorkflowError) -> Error {
    let kind = match error {
        WorkflowError::NotFound { .. } => ErrorKind::NotFound,
        WorkflowError::UnknownKind { .. }
        | WorkflowError::BadInput { .. }
        | WorkflowError::BadKey { .. } => ErrorKind::Invalid,
        WorkflowError::KeyReused { .. } => ErrorKind::AlreadyExists,
        WorkflowError::Ended { .. } | WorkflowError::NothingLeft { .. } => ErrorKind::WrongState,
        WorkflowError::Contended { .. } => ErrorKind::Aborted,
        WorkflowError::Store { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, strata_types::chain(error))
}

/// The name of a step as it is shown. Step names are keys of the journal, by
/// which operations are resumed: they stay as earlier releases wrote them.
pub(crate) fn step_label(key: &str) -> &str {
    match key {
        "bury" => "remove-failed",
        "expect" => "register",
        "forget" => "deregister",
        "prove" => "verify",
        "take" => "allocate",
        other => other,
    }
}
