//! What the kinds of things on a node are built from, and how each is put
//! together: cells for all, in places of their own.

use std::path::PathBuf;
use std::sync::Arc;

use strata_cell::{Cgroups, InitImage, LogLimits};
use strata_rootfs::Roots;
use strata_types::{Error, Result};

use crate::cells::{Cells, Keeper, Shared};
use crate::folder::NodeFolder;
use crate::images::Images;
use crate::network::NodeNetwork;
use crate::pods::{Outfitter, PodKind, Pods};
use crate::pool::NodePool;
use crate::secrets::PodSecrets;
use crate::units::Names;
use crate::vms::{VmKind, Vms};
use crate::volumes::NodeVolumes;

/// What pods are kept under, on disk and among the cgroups: no cell can be
/// called so.
const PODS: &str = "_pods";
/// The same for virtual machines.
const VMS: &str = "_vms";

/// What cells and pods are built from.
pub(crate) struct Parts {
    pub(crate) folder: NodeFolder,
    pub(crate) cgroups: Cgroups,
    pub(crate) image: Arc<InitImage>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) images: Images,
    pub(crate) logs: LogLimits,
    pub(crate) pool: Arc<NodePool>,
    pub(crate) names: Names,
    pub(crate) secrets: Arc<PodSecrets>,
}

impl Parts {
    /// What all cells share; those of a kind apart have a place of their own.
    pub(crate) fn shared(&self, apart: Option<&str>) -> Result<Shared> {
        let (folder, cgroups) = match apart {
            None => (self.folder.clone(), self.cgroups.clone()),
            Some(name) => {
                let folder = self.folder.within(name).map_err(|error| {
                    Error::internal(format!("cannot open the folder of {name}: {error}"))
                })?;
                (folder, self.cgroups.within(name))
            }
        };
        Ok(Shared {
            folder,
            cgroups,
            image: self.image.clone(),
            keeper: self.keeper.clone(),
            logs: self.logs,
            watchfulness: Default::default(),
        })
    }

    /// The pods, found again.
    pub(crate) async fn pods(&self) -> Result<Pods> {
        let cells = Cells::recover(Arc::new(self.shared(Some(PODS))?)).await?;
        let sub = |name: &str| self.sub(&format!("{PODS}/{name}"));
        let roots = Roots::open(&sub("roots")?).map_err(|error| {
            Error::internal(format!(
                "cannot open the pods' roots: {}",
                strata_types::chain(&error)
            ))
        })?;
        let lack_of_id_maps = strata_rootfs::lack_of_id_maps(&sub("roots")?);
        if let Some(why) = &lack_of_id_maps {
            tracing::warn!(%why, "pods have the users of the host: user namespaces cannot be used");
        }
        let kind = PodKind {
            lack_of_id_maps,
            cells,
            images: self.images.clone(),
            outfitter: Outfitter {
                roots: Arc::new(roots),
                files: sub("files")?,
                groups: self
                    .cgroups
                    .root()
                    .shown()
                    .into_iter()
                    .map(|(name, _)| name)
                    .collect(),
                volumes: Arc::new(NodeVolumes::open(&self.sub("volumes")?)?),
                pool: self.pool.clone(),
                secrets: self.secrets.clone(),
                allowed: self.images.config().local_folders.clone(),
            },
            network: self.network.clone(),
            id_maps: Default::default(),
            held: Default::default(),
        };
        let pods = Pods::new(Arc::new(kind), sub("records")?, self.names.clone());
        pods.open().await
    }

    /// The virtual machines, found again.
    pub(crate) async fn vms(&self) -> Result<Vms> {
        let kind = VmKind {
            cells: Cells::recover(Arc::new(self.shared(Some(VMS))?)).await?,
            network: self.network.clone(),
            pool: self.pool.clone(),
            images: self.images.clone(),
            folders: self.sub(&format!("{VMS}/folders"))?,
            uids: Default::default(),
            program: Default::default(),
            host: Default::default(),
            consoles: Default::default(),
        };
        let vms = Vms::new(
            Arc::new(kind),
            self.sub(&format!("{VMS}/records"))?,
            self.names.clone(),
        );
        vms.recover().await?;
        Ok(vms)
    }

    fn sub(&self, name: &str) -> Result<PathBuf> {
        let made = self.folder.sub(name);
        made.map_err(|error| Error::internal(format!("cannot make the folder {name}: {error}")))
    }
}
