//! Long actions of the control plane, as durable operations: any server takes
//! and shows them, the one that leads runs them.

mod backups;
mod cancel;
mod clusters;
mod drain;
mod hypervisors;
mod storage;

use std::sync::Arc;

use strata_store::Store;
use strata_types::{Error, ErrorKind, Result};
use strata_workflow::{End, Operations, Registry, Settings, StepError, Workflow, WorkflowError};
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Lead};
pub(crate) use backups::POOL;
pub use backups::{
    BackupInput, Backups, CreateBackup, Place, PruneBackups, PruneInput, Resting, RestoreBackup,
    RestoreInput, VerifyBackup, VerifyInput,
};
pub(crate) use cancel::authorize_cancel;
pub(crate) use clusters::user_name;
pub use clusters::{
    ClusterSettings, Clusters, CreateCluster, CreateClusterInput, DeleteCluster,
    DeleteClusterInput, HealCluster, HealInput, PoolChange, RenewCluster, RenewInput,
    RestoreCluster, RestoreClusterInput, ScaleCluster, ScaleInput, Seen, Sight, SnapshotCluster,
    SnapshotInput, Tunnelled, UpgradeCluster, UpgradeInput,
};
pub(crate) use drain::input as drain_input;
pub use drain::{Drain, DrainInput};
pub(crate) use hypervisors::is_for;
pub use hypervisors::{
    ByCell, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, Hypervisors,
    JoinTokens, Prove, SwitchInput, SwitchMachine,
};
pub(crate) use storage::bytes as amount;
pub use storage::{
    ExpandInput, ExpandStorage, ReplaceDevice, ReplaceInput, ScrubInput, ScrubStorage, ShrinkInput,
    ShrinkStorage, Storage,
};

/// What operations work on, beyond the records. Cheap to clone.
#[derive(Clone)]
pub struct Estate {
    /// What brings machines up and down.
    pub hypervisors: Hypervisors,
    /// The pool.
    pub storage: Storage,
    /// Where backups go.
    pub backups: Backups,
    /// Clusters.
    pub clusters: Clusters,
}

impl Estate {
    /// Of a control plane that has none of it.
    pub fn none(core: &Core) -> Self {
        Self {
            hypervisors: Hypervisors::none(core.clone()),
            storage: Storage::none(),
            backups: Backups {
                storage: Storage::none(),
                store: core.shared_store(),
                engine: core.shared_store(),
                place: None,
                resting: Arc::new(|_| Ok(())),
            },
            clusters: Clusters::none(core.clone()),
        }
    }
}

/// Knows every kind of operation, and runs them while this server leads.
pub fn start(
    core: &Core,
    estate: &Estate,
    store: Arc<dyn Store>,
    shutdown: CancellationToken,
) -> Result<Operations> {
    let mut registry = Registry::new();
    let hypervisors = Arc::new(estate.hypervisors.clone());
    let storage = Arc::new(estate.storage.clone());
    let backups = Arc::new(estate.backups.clone());
    let clusters = Arc::new(estate.clusters.clone());
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
    drop(estate.clusters.operations.set(operations.clone()));
    let (core, running) = (core.clone(), operations.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(&core, &running) => {}
        }
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
                            End::Deposed => tracing::info!("operations are run elsewhere now"),
                            End::Crashed => tracing::error!("operations stopped"),
                        },
                        _ = lead.changed() => {}
                    }
                    workflow.shutdown().await;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "operations cannot be run"),
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
