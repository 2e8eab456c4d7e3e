//! The control plane as a whole: a store, the core over it, the tasks beside
//! it, and the faces that are served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_audit::AuditLog;
use strata_clusters::Driver;
use strata_clusters::catalogue::Catalogue;
use strata_clusters::kubeadm::Hands;
use strata_identity::Authority;
use strata_machines::Providers;
use strata_store::{
    Embedded, EmbeddedOptions, Etcd, EtcdOptions, OpenError, Sealed, Store, UnsealError,
};
use strata_types::machine::MachineSpec;
use strata_types::{Error, Label, Result};
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, CoreSettings, Lead, keys, public};
use crate::faces::rest::{self, RestState};
use crate::faces::scheduler::{InstanceFace, NodeFace};
use crate::faces::{ClusterFace, ControllerFace, Faces, InstancesFace, OperationsFace};
use crate::link::{AssignmentsFace, ServerImagesFace, Tunnels};
use crate::operations::{
    Backups, ByCell, ClusterSettings, Clusters, Estate, Hypervisors, JoinTokens, Place, Sight,
    Storage, Tunnelled,
};
use crate::placement::PlacementHandle;
use crate::{autoscale, kept_exports, operations, placement, reconcile};

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
    /// In a file in this folder.
    Embedded(PathBuf),
    /// In etcd, with other servers.
    Etcd(EtcdOptions),
}

impl StoreConfig {
    /// Opens the store, and seals what is not sealed yet.
    pub async fn open(&self) -> Result<Sealed> {
        if !self.may_be_new
            && let StoreEngine::Embedded(folder) = &self.engine
            && !has_records(folder)
        {
            return Err(no_records(&folder.display().to_string()));
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
fn unopened(error: &OpenError, folder: &Path) -> Error {
    let what = Error::unavailable(strata_types::chain(error));
    let damaged = matches!(
        error,
        OpenError::Damaged { .. } | OpenError::RolledBack { .. } | OpenError::Engine { .. }
    );
    if !damaged {
        return what;
    }
    let file = folder.join("store.redb");
    let to = match kept_exports::newest(folder) {
        Some(export) => format!("strata store import {}", export.display()),
        None => "strata restore, from a backup".to_owned(),
    };
    what.with_hint(format!(
        "see what is wrong: strata store check; or move {} and store.revision aside, then {to}",
        file.display()
    ))
}

fn has_records(folder: &Path) -> bool {
    let file = std::fs::metadata(folder.join("store.redb"));
    file.is_ok_and(|file| file.len() > 0)
}

fn no_records(place: &str) -> Error {
    Error::wrong_state(format!(
        "there are no records in {place}, and this data directory has the identities of a \
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
            Self::Embedded(folder) => folder.display().to_string(),
            Self::Etcd(options) => format!("etcd under {:?}", options.prefix),
        }
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Embedded(folder) => {
                let (folder, place) = (folder.clone(), folder.clone());
                let opened = tokio::task::spawn_blocking(move || {
                    Embedded::open(&folder, &EmbeddedOptions::default())
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
pub type DriverMaker = Box<dyn FnOnce(Arc<dyn Hands>) -> Arc<dyn Driver> + Send>;

/// Where machines come from, and how they come in.
pub struct Machinery {
    /// The drivers.
    pub providers: Providers,
    /// Makes a token with which one node may join.
    pub join_tokens: JoinTokens,
    /// Where machines reach this server, unless their provider knows better.
    pub server: String,
    /// The pool.
    pub storage: Storage,
    /// Where backups go; none where this server makes none.
    pub backups: Option<Place>,
    /// How clusters are kept.
    pub clusters: ClusterSettings,
    /// What makes Kubernetes of machines, with these hands on them.
    pub driver: DriverMaker,
    /// Machines that the configuration names.
    pub inventory: Vec<(Label, MachineSpec)>,
}

/// The control plane. Cheap to clone.
#[derive(Clone)]
pub struct ControlPlane {
    /// The rules over the records.
    pub core: Core,
    /// Asks placement.
    pub placement: PlacementHandle,
    /// The ways to nodes.
    pub tunnels: Tunnels,
    /// Long actions.
    pub operations: Operations,
    /// What they work on.
    pub estate: Estate,
    shutdown: CancellationToken,
    audit: Option<Arc<AuditLog>>,
    authority: Option<Arc<Authority>>,
}

impl ControlPlane {
    /// Opens the store and starts everything over it. `address` is where nodes
    /// and people reach this server.
    pub async fn start(
        store: &StoreConfig,
        settings: CoreSettings,
        address: String,
        machinery: Machinery,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let alone = settings.alone;
        let sealed = store.open().await?;
        let engine = sealed.engine();
        if let StoreEngine::Embedded(folder) = &store.engine {
            kept_exports::start(engine.clone(), folder.clone(), shutdown.clone());
        }
        let store: Arc<dyn Store> = Arc::new(sealed);
        let core = Core::open(store.clone(), settings, shutdown.clone()).await?;
        let placement = placement::start(core.clone(), shutdown.clone());
        reconcile::start_liveness(core.clone(), shutdown.clone());
        let tunnels = Tunnels::new(core.clone());
        let hypervisors = Hypervisors {
            core: core.clone(),
            providers: machinery.providers,
            join_tokens: machinery.join_tokens,
            prove: Arc::new(ByCell(tunnels.clone())),
            server: machinery.server,
            run: core.run_id().await?,
        };
        let backups = Backups {
            storage: machinery.storage.clone(),
            store: store.clone(),
            engine,
            place: machinery.backups,
            resting: {
                let core = core.clone();
                Arc::new(move |volume: &str| core.nobody_runs_on_pool_volume(volume))
            },
        };
        let hands = Arc::new(Tunnelled(tunnels.clone()));
        let clusters = Clusters {
            core: core.clone(),
            driver: (machinery.driver)(hands),
            catalogue: Catalogue::new(&machinery.clusters.bundles),
            settings: machinery.clusters,
            sight: Sight::default(),
            operations: Arc::default(),
        };
        let estate = Estate {
            hypervisors,
            storage: machinery.storage,
            backups,
            clusters,
        };
        let operations = operations::start(&core, &estate, store.clone(), shutdown.clone())?;
        reconcile::add_configured(&core, machinery.inventory).await;
        reconcile::start_schedules(core.clone(), operations.clone(), shutdown.clone());
        reconcile::start_clusters(estate.clusters.clone(), shutdown.clone());
        reconcile::start_endpoints(estate.clusters.clone(), shutdown.clone());
        autoscale::start(core.clone(), operations.clone(), shutdown.clone());
        reconcile::start_machines(
            estate.hypervisors.clone(),
            operations.clone(),
            shutdown.clone(),
        );
        reconcile::start_powered_off(estate.hypervisors.clone(), shutdown.clone());
        match alone {
            true => core.set_lead(Lead::Leading(None)),
            false => {
                reconcile::start_leadership(core.clone(), store, address, shutdown.clone());
            }
        }
        Ok(Self {
            core,
            placement,
            tunnels,
            operations,
            estate,
            shutdown,
            audit: None,
            authority: None,
        })
    }

    /// Lets admins rotate this CA, and has nodes trust its roots.
    #[must_use]
    pub fn with_authority(mut self, authority: Arc<Authority>) -> Self {
        self.authority = Some(authority);
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
    pub fn serve(&self, faces: Faces) -> Faces {
        let (core, tunnels) = (self.core.clone(), self.tunnels.clone());
        let links = AssignmentsFace::new(core.clone(), tunnels.clone(), self.shutdown.clone())
            .with_authority(self.authority.clone());
        let talk = InstancesFace::new(core.clone(), tunnels.clone());
        let rest = RestState::new(
            core.clone(),
            self.placement.clone(),
            self.operations.clone(),
            self.estate.clone(),
            talk.clone(),
            self.shutdown.clone(),
        )
        .with_audit(self.audit.clone())
        .with_authority(self.authority.clone());
        let clusters = ClusterFace::new(self.estate.clusters.clone(), faces.build().clone());
        faces
            .http(rest::routes(rest))
            .http(rest::gateway(clusters.clone()))
            .grpc(clusters.service())
            .grpc(NodeFace::new(core.clone()).service())
            .grpc(InstanceFace::new(core.clone()).service())
            .grpc(ControllerFace::new(core.clone()).service())
            .grpc(talk.service())
            .grpc(
                OperationsFace::new(core.clone(), self.operations.clone(), self.estate.clone())
                    .service(),
            )
            .grpc(links.service())
            .grpc(ServerImagesFace::new(core).service())
    }
}
