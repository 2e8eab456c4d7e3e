//! After a restart of the daemon: nested_nodes are found again, and what
//! belongs to none is cleared. So is a machine whose node never answered: its
//! creation was interrupted. One that has joined a server meanwhile stays:
//! others know of it by now.

use std::sync::Arc;
use std::time::Duration;

use strata_types::{Error, Result};

use super::identity::Identities;
use super::program::Program;
use super::{MACHINES, NestedNodeKind, NestedNodes, SPAWNED_V2, subnets};
use crate::NodeConfig;
use crate::cells::{Cells, Shared};
use crate::components::NodeComponents;

impl NestedNodes {
    /// The nested_nodes of a node, found again.
    pub(crate) async fn open(components: &NodeComponents, config: &NodeConfig) -> Result<Self> {
        let sub = |name: &str| {
            let allocated = components.dir.sub(&format!("{MACHINES}/{name}"));
            allocated.map_err(|error| {
                Error::internal(format!("cannot make the directory {name}: {error}"))
            })
        };
        let cgroups = components.cgroups.within(MACHINES).whole();
        let hierarchies = match cgroups.v1_controllers() {
            Some(controllers) => controllers.join(","),
            None => SPAWNED_V2.to_owned(),
        };
        let shared = Shared {
            cgroups,
            ..components.shared(Some(MACHINES))?
        };
        let kind = NestedNodeKind {
            cells: Cells::recover(Arc::new(shared)).await?,
            network: components.network.clone(),
            pool: components.pool.clone(),
            kubernetes: config.kubernetes.clone(),
            identities: Identities::new(config.authority.clone()),
            images: config.images.clone(),
            data_dir: config.data_dir.clone(),
            dirs: sub("folders")?,
            program: Program::new(sub("program")?.join("strata")),
            place: sub("place")?,
            range: subnets::range(config.network.range),
            subnets: Default::default(),
            hierarchies,
        };
        let nested_nodes = Self::new(
            Arc::new(kind),
            sub("records")?,
            components.names.clone(),
            components.tasks.clone(),
        );
        nested_nodes.recover_all().await?;
        Ok(nested_nodes)
    }

    /// Finds all nested_nodes again. One that never came to answer never came to be.
    async fn recover_all(&self) -> Result<()> {
        let kind = self.kind();
        for record in self.recover().await? {
            kind.subnets().insert(record.allocated.subnet);
            if !kind.has_answered(&record.id) && !kind.has_joined(&record.id) {
                let name = record.spec.name.as_str();
                tracing::info!(
                    machine = name,
                    "removing a nested node that never became ready"
                );
                self.destroy("name", name, Some(Duration::ZERO)).await?;
            }
        }
        Ok(())
    }
}
