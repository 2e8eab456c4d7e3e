//! After a restart of the daemon: machines are found again, and what belongs
//! to none is cleared. So is a machine whose node never answered: its maker
//! was cut short. One that has joined a server meanwhile stays: others know of
//! it by now.

use std::sync::Arc;
use std::time::Duration;

use strata_types::{Error, Result};

use super::identity::Identities;
use super::program::Program;
use super::{MACHINES, MachineKind, Machines, SPAWNED_V2, subnets};
use crate::NodeConfig;
use crate::cells::{Cells, Shared};
use crate::parts::Parts;

impl Machines {
    /// The machines of a node, found again.
    pub(crate) async fn open(parts: &Parts, config: &NodeConfig) -> Result<Self> {
        let sub = |name: &str| {
            let made = parts.folder.sub(&format!("{MACHINES}/{name}"));
            made.map_err(|error| Error::internal(format!("cannot make the folder {name}: {error}")))
        };
        let cgroups = parts.cgroups.within(MACHINES).whole();
        let hierarchies = match cgroups.v1_controllers() {
            Some(controllers) => controllers.join(","),
            None => SPAWNED_V2.to_owned(),
        };
        let shared = Shared {
            cgroups,
            ..parts.shared(Some(MACHINES))?
        };
        let kind = MachineKind {
            cells: Cells::recover(Arc::new(shared)).await?,
            network: parts.network.clone(),
            pool: parts.pool.clone(),
            kubernetes: config.kubernetes.clone(),
            identities: Identities::new(config.authority.clone()),
            images: config.images.clone(),
            data_dir: config.data_dir.clone(),
            folders: sub("folders")?,
            program: Program::new(sub("program")?.join("strata")),
            place: sub("place")?,
            range: subnets::range(config.network.range),
            subnets: Default::default(),
            hierarchies,
        };
        let machines = Self::new(Arc::new(kind), sub("records")?, parts.names.clone());
        machines.find_again().await?;
        Ok(machines)
    }

    /// Finds all machines again. One that never came to answer never came to be.
    async fn find_again(&self) -> Result<()> {
        let kind = self.kind();
        for record in self.recover().await? {
            kind.subnets().insert(record.made.subnet);
            if !kind.has_answered(&record.id) && !kind.has_joined(&record.id) {
                let name = record.spec.name.as_str();
                tracing::info!(machine = name, "clearing a machine that never came to be");
                self.destroy("name", name, Some(Duration::ZERO)).await?;
            }
        }
        Ok(())
    }
}
