//! The control plane as a whole: a store, the core over it, the tasks beside
//! it, and the faces that are served.

use std::path::PathBuf;
use std::sync::Arc;

use strata_store::{Embedded, EmbeddedOptions, Etcd, EtcdOptions, Store};
use strata_types::{Error, Result};
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, CoreSettings, Lead};
use crate::faces::rest::{self, RestState};
use crate::faces::scheduler::{InstanceFace, NodeFace};
use crate::faces::{ControllerFace, Faces, InstancesFace};
use crate::link::{AssignmentsFace, Tunnels};
use crate::placement::PlacementHandle;
use crate::{operations, placement, reconcile};

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
    shutdown: CancellationToken,
}

impl ControlPlane {
    /// Opens the store and starts everything over it. `address` is where nodes
    /// and people reach this server.
    pub async fn start(
        store: &StoreConfig,
        settings: CoreSettings,
        address: String,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let (alone, store) = (settings.alone, store.open().await?);
        let core = Core::open(store.clone(), settings, shutdown.clone()).await?;
        let placement = placement::start(core.clone(), shutdown.clone());
        reconcile::start_liveness(core.clone(), shutdown.clone());
        let operations = operations::start(&core, store.clone(), shutdown.clone())?;
        match alone {
            true => core.set_lead(Lead::Leading(None)),
            false => {
                reconcile::start_leadership(core.clone(), store, address, shutdown.clone());
            }
        }
        Ok(Self {
            core,
            placement,
            tunnels: Tunnels::default(),
            operations,
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
            talk.clone(),
            self.shutdown.clone(),
        );
        faces
            .http(rest::routes(rest))
            .grpc(NodeFace::new(core.clone()).service())
            .grpc(InstanceFace::new(core.clone()).service())
            .grpc(ControllerFace::new(core.clone()).service())
            .grpc(talk.service())
            .grpc(links.service())
    }
}
