//! What the kinds of things on a node are built from, and how each is put
//! together: cells for all, in places of their own.

use std::path::PathBuf;
use std::sync::Arc;

use strata_cell::{Cgroups, InitImage, LogLimits};
use strata_rootfs::Roots;
use strata_tasks::TaskGroup;
use strata_types::{Error, Result};

use crate::cells::{Cells, Shared, Shim};
use crate::images::Images;
use crate::network::NodeNetwork;
use crate::node_dir::NodeDir;
use crate::pods::{PodKind, Pods, RootfsBuilder};
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
pub(crate) struct NodeComponents {
    pub(crate) dir: NodeDir,
    pub(crate) cgroups: Cgroups,
    pub(crate) image: Arc<InitImage>,
    pub(crate) shim: Arc<Shim>,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) images: Images,
    pub(crate) logs: LogLimits,
    pub(crate) pool: Arc<NodePool>,
    pub(crate) names: Names,
    pub(crate) secrets: Arc<PodSecrets>,
    pub(crate) allow_host_users: bool,
    pub(crate) tasks: TaskGroup,
}

impl NodeComponents {
    /// What all cells share; those of a kind apart have a place of their own.
    pub(crate) fn shared(&self, apart: Option<&str>) -> Result<Shared> {
        let (dir, cgroups) = match apart {
            None => (self.dir.clone(), self.cgroups.clone()),
            Some(name) => {
                let dir = self.dir.within(name).map_err(|error| {
                    Error::internal(format!("cannot open the directory of {name}: {error}"))
                })?;
                (dir, self.cgroups.within(name))
            }
        };
        Ok(Shared {
            dir,
            cgroups,
            image: self.image.clone(),
            shim: self.shim.clone(),
            logs: self.logs,
            supervisor: Default::default(),
            tasks: self.tasks.clone(),
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
        match &lack_of_id_maps {
            Some(why) if self.allow_host_users => {
                tracing::warn!(%why, "pods use host user ids: user namespaces are not available");
            }
            Some(why) => {
                tracing::warn!(%why, "pods refused: user namespaces are not available, and [node] allow_host_users is not set");
            }
            None => {}
        }
        let kind = PodKind {
            lack_of_id_maps,
            allow_host_users: self.allow_host_users,
            cells,
            images: self.images.clone(),
            rootfs_builder: RootfsBuilder {
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
                allowed: self.images.config().local_dirs.clone(),
            },
            network: self.network.clone(),
            id_maps: Default::default(),
            held: Default::default(),
        };
        let pods = Pods::new(
            Arc::new(kind),
            sub("records")?,
            self.names.clone(),
            self.tasks.clone(),
        );
        pods.open().await
    }

    /// The virtual machines, found again.
    pub(crate) async fn vms(&self) -> Result<Vms> {
        let kind = VmKind {
            cells: Cells::recover(Arc::new(self.shared(Some(VMS))?)).await?,
            network: self.network.clone(),
            pool: self.pool.clone(),
            images: self.images.clone(),
            dirs: self.sub(&format!("{VMS}/folders"))?,
            uids: Default::default(),
            program: Default::default(),
            host: Default::default(),
            consoles: Default::default(),
        };
        let vms = Vms::new(
            Arc::new(kind),
            self.sub(&format!("{VMS}/records"))?,
            self.names.clone(),
            self.tasks.clone(),
        );
        vms.recover().await?;
        Ok(vms)
    }

    fn sub(&self, name: &str) -> Result<PathBuf> {
        let made = self.dir.sub(name);
        made.map_err(|error| Error::internal(format!("cannot make the directory {name}: {error}")))
    }
}
