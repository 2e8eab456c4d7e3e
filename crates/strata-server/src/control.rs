//! The control plane as a whole: a store, the core over it, the tasks beside
//! it, and the APIs that are served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_audit::AuditLog;
use strata_clusters::Driver;
use strata_clusters::catalogue::Catalogue;
use strata_clusters::kubeadm::RemoteExec;
use strata_identity::Ca;
use strata_machines::Providers;
use strata_store::{
    Embedded, EmbeddedOptions, Etcd, EtcdOptions, OpenError, Sealed, Store, UnsealError,
};
use strata_tasks::{Stage, Tasks};
use strata_types::machine::MachineSpec;
use strata_types::{Error, Label, Result};
use strata_workflow::Operations;

use crate::api::ApiServer;
use crate::api::grpc::scheduler::{InstanceApi, NodeApi};
use crate::api::grpc::{ClusterApi, ControllerApi, NodeInstancesApi, OperationsApi};
use crate::api::rest::{self, RestState};
use crate::core::{Core, CoreSettings, Lead, keys, public};
use crate::link::{AssignmentsApi, ServerImagesApi, Tunnels};
use crate::operations::{
    Backends, BackupTarget, Backups, CellProof, ClusterSettings, Clusters, Hypervisors, JoinTokens,
    NodeExec, ObservationCache, Storage,
};
use crate::placement::PlacementHandle;
use crate::{autoscale, operations, placement, reconcile, store_exports};

/// Where records are kept, and the key that opens them.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where they are.
    pub engine: StoreEngine,
    /// The file with the store key; made if the store was never sealed.
    pub key_file: PathBuf,
    /// Whether an empty store is begun with. Otherwise it is refused: this
    /// server had one.
    pub may_be_new: bool,
    /// The id of the control plane that its records have to be of; any when
    /// none.
    pub control_plane: Option<String>,
}

/// Where records are kept.
#[derive(Clone, Debug)]
pub enum StoreEngine {
    /// In a file in this directory.
    Embedded(PathBuf),
    /// In etcd, with other servers.
    Etcd(EtcdOptions),
}

impl StoreConfig {
    /// Opens the store, and seals what is not sealed yet.
    pub async fn open(&self) -> Result<Sealed> {
        if !self.may_be_new
            && let StoreEngine::Embedded(dir) = &self.engine
            && !has_records(dir)
        {
            return Err(no_records(&dir.display().to_string()));
        }
        let engine = self.engine.open().await?;
        if !self.may_be_new {
            // Also one that was being made when its server died, and one in
            // etcd under another prefix.
            let schema = engine.get(keys::SCHEMA).await.map_err(public)?;
            let importing = engine.get(strata_store::IMPORT_KEY).await.map_err(public)?;
            if schema.is_none() && importing.is_none() {
                return Err(no_records(&self.engine.describe()));
            }
        }
        let opened = Sealed::open(engine, &self.key_file).await;
        let opened = opened.map_err(|error| not_opened(&error, &self.key_file))?;
        self.check_control_plane(&opened).await?;
        Ok(opened)
    }

    /// Refuses the records of another control plane.
    async fn check_control_plane(&self, store: &Sealed) -> Result<()> {
        let Some(own) = &self.control_plane else {
            return Ok(());
        };
        let found = store.get(keys::RUN).await.map_err(public)?;
        let found = found.map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
        match found {
            Some(found) if found != *own => Err(Error::wrong_state(format!(
                "the store has the records of control plane {found}, and this data directory \
                 is of {own}"
            ))
            .with_hint(
                "see [store] in the configuration, its prefix too; \
                 --new-store to go on with these records",
            )),
            _ => Ok(()),
        }
    }
}

/// Why the store of a directory is not opened, and what to go on with.
fn unopened(error: &OpenError, dir: &Path) -> Error {
    let what = Error::unavailable(strata_types::chain(error));
    let damaged = matches!(
        error,
        OpenError::Damaged { .. } | OpenError::RolledBack { .. } | OpenError::Engine { .. }
    );
    if !damaged {
        return what;
    }
    let file = dir.join("store.redb");
    let to = match store_exports::newest(dir) {
        Some(export) => format!("strata store import {}", export.display()),
        None => "strata restore, from a backup".to_owned(),
    };
    what.with_hint(format!(
        "see what is wrong: strata store check; or move {} and store.revision aside, then {to}",
        file.display()
    ))
}

fn has_records(dir: &Path) -> bool {
    let file = std::fs::metadata(dir.join("store.redb"));
    file.is_ok_and(|file| file.len() > 0)
}

fn no_records(location: &str) -> Error {
    Error::wrong_state(format!(
        "there are no records in {location}, and this data directory has the identities of a \
         control plane"
    ))
    .with_hint(
        "bring the store back: mount its disk, correct [store] with its prefix, or use strata \
         restore; --new-store to begin with an empty one",
    )
}

fn not_opened(error: &UnsealError, key_file: &Path) -> Error {
    let what = Error::unavailable(strata_types::chain(error));
    match error {
        UnsealError::ImportUnfinished => Error::wrong_state(error.to_string())
            .with_hint("run strata store import again, to the end"),
        UnsealError::KeyMissing { .. } | UnsealError::WrongKey(_) => what.with_hint(format!(
            "bring {} back from where it was kept, from another server of this control plane, \
             or from a backup (strata restore)",
            key_file.display()
        )),
        UnsealError::KeyFile(_) | UnsealError::Store(_) => what,
    }
}

impl StoreEngine {
    fn describe(&self) -> String {
        match self {
            Self::Embedded(dir) => dir.display().to_string(),
            Self::Etcd(options) => format!("etcd under {:?}", options.prefix),
        }
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Embedded(dir) => {
                let (dir, place) = (dir.clone(), dir.clone());
                let opened = tokio::task::spawn_blocking(move || {
                    Embedded::open(&dir, &EmbeddedOptions::default())
                });
                let opened = opened
                    .await
                    .map_err(|error| Error::internal(error.to_string()))?;
                match opened {
                    Ok(store) => Ok(Arc::new(store)),
                    Err(error) => Err(unopened(&error, &place)),
                }
            }
            Self::Etcd(options) => match Etcd::connect(options).await {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => Err(Error::unavailable(strata_types::chain(&error))
                    .with_hint("see [store] in the configuration, and whether etcd is up")),
            },
        }
    }
}

/// Makes what makes Kubernetes of machines.
pub type DriverFactory = Box<dyn FnOnce(Arc<dyn RemoteExec>, &Core) -> Arc<dyn Driver> + Send>;

/// Where machines come from, and how they come in.
pub struct ControlPlaneDeps {
    pub providers: Providers,
    /// Makes a token with which one node may join.
    pub join_tokens: JoinTokens,
    /// Where machines reach this server, unless their provider knows better.
    pub server: String,
    pub storage: Storage,
    /// Where backups go; none where this server makes none.
    pub backups: Option<BackupTarget>,
    /// How clusters are kept.
    pub clusters: ClusterSettings,
    /// What makes Kubernetes of machines, with remote execution on them and
    /// the records of the control plane.
    pub driver: DriverFactory,
    /// Machines that the configuration names.
    pub inventory: Vec<(Label, MachineSpec)>,
}

/// The control plane. Cheap to clone.
#[derive(Clone)]
pub struct ControlPlane {
    /// The rules over the records.
    pub core: Core,
    /// Answers why an instance is where it is.
    pub placement: PlacementHandle,
    /// The ways to nodes.
    pub tunnels: Tunnels,
    pub operations: Operations,
    /// What they work on.
    pub backends: Backends,
    tasks: Tasks,
    audit: Option<Arc<AuditLog>>,
    ca: Option<Arc<Ca>>,
}

impl ControlPlane {
    /// Opens the store and starts everything over it. `address` is where nodes
    /// and people reach this server.
    pub async fn start(
        store: &StoreConfig,
        settings: CoreSettings,
        address: String,
        deps: ControlPlaneDeps,
        tasks: &Tasks,
    ) -> Result<Self> {
        let controllers = &tasks.group(Stage::Controllers);
        let services = &tasks.group(Stage::Services);
        let alone = settings.alone;
        let sealed = store.open().await?;
        let engine = sealed.engine();
        if let StoreEngine::Embedded(dir) = &store.engine {
            store_exports::start(engine.clone(), dir.clone(), controllers);
        }
        let store: Arc<dyn Store> = Arc::new(sealed);
        let core = Core::open(store.clone(), settings, services).await?;
        core.waive_leases_of_nodes_served_elsewhere().await?;
        let placement = placement::start(core.clone(), controllers);
        reconcile::start_liveness(core.clone(), controllers);
        let tunnels = Tunnels::new(core.clone());
        let hypervisors = Hypervisors {
            core: core.clone(),
            providers: deps.providers,
            join_tokens: deps.join_tokens,
            prove: Arc::new(CellProof(tunnels.clone())),
            server: deps.server,
            run: core.run_id().await?,
        };
        let backups = Backups {
            storage: deps.storage.clone(),
            store: store.clone(),
            engine,
            target: deps.backups,
            resting: {
                let core = core.clone();
                Arc::new(move |volume: &str| core.ensure_volume_not_running(volume))
            },
        };
        let hands = Arc::new(NodeExec(tunnels.clone()));
        let clusters = Clusters {
            core: core.clone(),
            driver: (deps.driver)(hands, &core),
            catalogue: Catalogue::new(&deps.clusters.bundles),
            settings: deps.clusters,
            observations: ObservationCache::default(),
            operations: Arc::default(),
        };
        let backends = Backends {
            hypervisors,
            storage: deps.storage,
            backups,
            clusters,
        };
        let operations = operations::start(&core, &backends, store.clone(), controllers)?;
        reconcile::add_configured(&core, deps.inventory).await;
        reconcile::start_schedules(core.clone(), operations.clone(), controllers);
        reconcile::start_clusters(backends.clusters.clone(), controllers);
        reconcile::start_endpoints(backends.clusters.clone(), controllers);
        autoscale::start(core.clone(), operations.clone(), controllers);
        reconcile::start_machines(
            backends.hypervisors.clone(),
            operations.clone(),
            controllers,
        );
        reconcile::start_powered_off(backends.hypervisors.clone(), controllers);
        match alone {
            true => core.set_lead(Lead::Leading(None)),
            false => {
                reconcile::start_leadership(core.clone(), store, address, controllers);
            }
        }
        Ok(Self {
            core,
            placement,
            tunnels,
            operations,
            backends,
            tasks: tasks.clone(),
            audit: None,
            ca: None,
        })
    }

    /// Lets admins rotate this CA, and has nodes trust its roots.
    #[must_use]
    pub fn with_ca(mut self, ca: Arc<Ca>) -> Self {
        self.ca = Some(ca);
        self
    }

    /// Lets admins read this audit log.
    #[must_use]
    pub fn with_audit(mut self, log: Arc<AuditLog>) -> Self {
        self.audit = Some(log);
        self
    }

    /// Adds everything that is served of it.
    #[must_use]
    pub fn serve(&self, api: ApiServer) -> ApiServer {
        let (core, tunnels) = (self.core.clone(), self.tunnels.clone());
        let links = AssignmentsApi::new(
            core.clone(),
            tunnels.clone(),
            self.tasks.group(Stage::Controllers),
        )
        .with_ca(self.ca.clone());
        let talk = NodeInstancesApi::new(core.clone(), tunnels.clone());
        let shutdown = self.tasks.group(Stage::Api).shutdown().clone();
        let rest = RestState::new(
            core.clone(),
            self.placement.clone(),
            self.operations.clone(),
            self.backends.clone(),
            talk.clone(),
            shutdown.clone(),
        )
        .with_audit(self.audit.clone())
        .with_ca(self.ca.clone());
        let clusters = ClusterApi::new(self.backends.clusters.clone(), api.build().clone());
        api.http(rest::routes(rest))
            .http(rest::gateway(clusters.clone()))
            .grpc(clusters.service())
            .grpc(NodeApi::new(core.clone()).service())
            .grpc(InstanceApi::new(core.clone(), shutdown.clone()).service())
            .grpc(ControllerApi::new(core.clone()).service())
            .grpc(talk.service())
            .grpc(
                OperationsApi::new(core.clone(), self.operations.clone(), self.backends.clone())
                    .service(),
            )
            .grpc(links.service())
            .grpc(ServerImagesApi::new(core).service())
    }
}
