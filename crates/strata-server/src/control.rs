//! The control plane as a whole: a store, the core over it, the tasks beside
//! it, and the faces that are served.

use std::path::PathBuf;
use std::sync::Arc;

use strata_clusters::Driver;
use strata_clusters::catalogue::Catalogue;
use strata_clusters::kubeadm::Hands;
use strata_machines::Providers;
use strata_store::{Embedded, EmbeddedOptions, Etcd, EtcdOptions, Store};
use strata_types::machine::MachineSpec;
use strata_types::{Error, Label, Result};
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, CoreSettings, Lead};
use crate::faces::rest::{self, RestState};
use crate::faces::scheduler::{InstanceFace, NodeFace};
use crate::faces::{ClusterFace, ControllerFace, Faces, InstancesFace, OperationsFace};
use crate::link::{AssignmentsFace, Tunnels};
use crate::operations::{
    Backups, ByCell, ClusterSettings, Clusters, Estate, Hypervisors, JoinTokens, Place, Sight,
    Storage, Tunnelled,
};
use crate::placement::PlacementHandle;
use crate::{autoscale, operations, placement, reconcile};

/// Where records are kept.
#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// In a file in this folder.
    Embedded(PathBuf),
    /// In etcd, with other servers.
    Etcd(EtcdOptions),
}

impl StoreConfig {
    /// Opens the store.
    pub async fn open(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Embedded(folder) => {
                let folder = folder.clone();
                let opened = tokio::task::spawn_blocking(move || {
                    Embedded::open(&folder, &EmbeddedOptions::default())
                });
                let opened = opened
                    .await
                    .map_err(|error| Error::internal(error.to_string()))?;
                match opened {
                    Ok(store) => Ok(Arc::new(store)),
                    Err(error) => Err(Error::unavailable(strata_types::chain(&error))),
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
        let (alone, store) = (settings.alone, store.open().await?);
        let core = Core::open(store.clone(), settings, shutdown.clone()).await?;
        let placement = placement::start(core.clone(), shutdown.clone());
        reconcile::start_liveness(core.clone(), shutdown.clone());
        let tunnels = Tunnels::default();
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
        })
    }

    /// Adds everything that is served of it.
    #[must_use]
    pub fn serve(&self, faces: Faces) -> Faces {
        let (core, tunnels) = (self.core.clone(), self.tunnels.clone());
        let links = AssignmentsFace::new(core.clone(), tunnels.clone(), self.shutdown.clone());
        let talk = InstancesFace::new(core.clone(), tunnels.clone());
        let rest = RestState::new(
            core.clone(),
            self.placement.clone(),
            self.operations.clone(),
            self.estate.clone(),
            talk.clone(),
            self.shutdown.clone(),
        );
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
    }
}
