//! After a restart of the daemon: machines are found again, and what belongs
//! to none is cleared. So is a machine whose node never answered: its maker
//! was cut short.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use strata_network::Endpoint;
use strata_types::{Error, Result};

use super::identity::Identities;
use super::kind::{endpoint, remove};
use super::plan::cell_name;
use super::program::Program;
use super::{MACHINES, MachineKind, Machines, SPAWNED_V2, subnets};
use crate::NodeConfig;
use crate::blocking::blocking;
use crate::cells::{Cells, Shared};
use crate::parts::Parts;
use crate::units::{Kind as _, Record};

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
            identities: Identities::new(config.authority.clone()),
            data_dir: config.data_dir.clone(),
            folders: sub("folders")?,
            program: Program::new(sub("program")?.join("strata")),
            place: sub("place")?,
            range: subnets::range(config.network.range),
            subnets: Default::default(),
            hierarchies,
        };
        let machines = Self::new(Arc::new(kind), sub("records")?, parts.names.clone());
        machines.recover().await?;
        Ok(machines)
    }

    async fn recover(&self) -> Result<()> {
        let failed = |error: std::io::Error| {
            Error::internal(format!("cannot read the machines' records: {error}"))
        };
        let loaded = self.load().map_err(failed)?;
        let records = loaded.records;
        let kind = self.kind();
        kind.subnets()
            .extend(records.iter().map(|record| record.made.subnet));
        if !loaded.some_unread {
            self.clear_orphans(&records).await?;
        }
        for record in records {
            if !kind.has_answered(&record.id) {
                let name = record.spec.name.as_str();
                tracing::info!(machine = name, "clearing a machine that never came to be");
                self.destroy("name", name, Some(Duration::ZERO)).await?;
            }
        }
        Ok(())
    }

    async fn clear_orphans(&self, records: &[Record<MachineKind>]) -> Result<()> {
        let kind = self.kind();
        let cells: HashSet<_> = records
            .iter()
            .map(|record| cell_name(&record.spec))
            .collect();
        for cell in kind.cells.list(None) {
            let name = &cell.spec.name;
            if !cells.contains(name) {
                tracing::info!(cell = %name, "clearing the cell of a machine that is not there");
                kind.cells.free(name, Some(Duration::ZERO)).await?;
            }
        }
        let ids: HashSet<_> = records.iter().map(|record| record.id.as_str()).collect();
        blocking(|| {
            let entries = std::fs::read_dir(&kind.folders);
            for entry in entries.into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name.to_str().is_none_or(|name| !ids.contains(name)) {
                    remove(&entry.path());
                }
            }
        });
        Ok(())
    }

    /// Endpoints of machines that run, and addresses of those that do not.
    pub(crate) fn endpoints(&self) -> (Vec<Endpoint>, Vec<Ipv4Addr>) {
        let (mut running, mut resting) = (Vec::new(), Vec::new());
        for machine in self.list() {
            let record = machine.record();
            let main = self.kind().main(&record);
            match main.is_some_and(|main| !main.view().is_over()) {
                true => running.push(endpoint(&record.spec, &record.made)),
                false => resting.push(record.made.address),
            }
        }
        (running, resting)
    }
}
