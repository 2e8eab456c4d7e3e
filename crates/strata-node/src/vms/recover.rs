//! After a restart of the daemon: machines are found again, and what belongs
//! to none is cleared.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use strata_network::Endpoint;
use strata_types::{Error, Result};

use super::kind::cell_name;
use super::{Vms, endpoint};
use crate::blocking::blocking;
use crate::units::Kind as _;

impl Vms {
    /// Finds all machines again.
    pub(crate) async fn recover(&self) -> Result<()> {
        let failed = |error: std::io::Error| {
            Error::internal(format!("cannot read the vms' records: {error}"))
        };
        let loaded = self.load().map_err(failed)?;
        if loaded.some_unread {
            return Ok(());
        }
        let records = loaded.records;
        let kind = self.kind();
        let cells: HashSet<_> = records
            .iter()
            .map(|record| cell_name(&record.spec))
            .collect();
        for cell in kind.cells.list(None) {
            if !cells.contains(&cell.spec.name) {
                tracing::info!(cell = %cell.spec.name, "clearing the cell of a vm that is not there");
                kind.cells
                    .free(&cell.spec.name, Some(Duration::ZERO))
                    .await?;
            }
        }
        let ids: HashSet<_> = records.iter().map(|record| record.id.as_str()).collect();
        blocking(|| {
            for entry in std::fs::read_dir(&kind.folders)
                .into_iter()
                .flatten()
                .flatten()
            {
                let name = entry.file_name();
                if name.to_str().is_none_or(|name| !ids.contains(name)) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        });
        Ok(())
    }

    /// Endpoints of machines that run, and addresses of those that do not.
    pub(crate) fn endpoints(&self) -> (Vec<Endpoint>, Vec<Ipv4Addr>) {
        let (mut running, mut resting) = (Vec::new(), Vec::new());
        for vm in self.list() {
            let record = vm.record();
            let main = self.kind().main(&record);
            match main.is_some_and(|main| !main.view().is_over()) {
                true => running.extend(endpoint(&record.spec, &record.made)),
                false => resting.extend(record.made.address),
            }
        }
        (running, resting)
    }
}
