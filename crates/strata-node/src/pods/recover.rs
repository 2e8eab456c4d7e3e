//! After a restart of the daemon: what pods have is found again, and what
//! belongs to none is cleared.

use std::collections::HashSet;
use std::time::Duration;

use strata_types::Result;

use super::kind::cell_name;
use super::{MAIN, Pods, endpoint};
use crate::blocking::blocking;
use crate::images::ImageUse;
use crate::units::Record;

impl Pods {
    /// Finds all pods again, and takes each up where it was left.
    pub(crate) async fn recover(&self) -> Result<()> {
        let failed = |error: std::io::Error| {
            strata_types::Error::internal(format!("cannot read the pods' records: {error}"))
        };
        let loaded = self.load().map_err(failed)?;
        self.hold_ids(&loaded.records);
        match loaded.some_unread {
            true => Ok(()),
            false => self.clear_orphans(&loaded.records).await,
        }
    }

    fn hold_ids(&self, records: &[Record<super::PodKind>]) {
        let maps = records.iter().filter_map(|record| record.made.id_map);
        let mut taken = self
            .kind()
            .id_maps
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        taken.extend(maps.map(|map| map.first));
    }

    /// Images that pods are made of.
    pub(crate) fn images_in_use(&self) -> Vec<ImageUse> {
        let used = |pod: crate::pods::PodRef| {
            let record = pod.record();
            let digest = record.made.image_digest.parse().ok()?;
            let by = format!("pod {}", record.spec.name);
            Some(ImageUse { digest, by })
        };
        self.list().into_iter().filter_map(used).collect()
    }

    /// Endpoints of pods that run, and addresses of those that do not.
    pub(crate) fn endpoints(&self) -> (Vec<strata_network::Endpoint>, Vec<std::net::Ipv4Addr>) {
        let (mut running, mut resting) = (Vec::new(), Vec::new());
        for pod in self.list() {
            let record = pod.record();
            let main = crate::units::Kind::main(&**self.kind(), &record);
            let runs = main.is_some_and(|main| !main.view().is_over());
            match (runs, record.made.address) {
                (true, _) => running.extend(endpoint(&record.spec, &record.made)),
                (false, address) => resting.extend(address),
            }
        }
        (running, resting)
    }

    /// Clears cells, roots and files that no pod has, and processes that were
    /// started in pods for callers of the daemon before.
    async fn clear_orphans(&self, records: &[Record<super::PodKind>]) -> Result<()> {
        let kind = self.kind();
        let cells: HashSet<_> = records
            .iter()
            .map(|record| cell_name(&record.spec))
            .collect();
        for cell in kind.cells.list(None) {
            if !cells.contains(&cell.spec.name) {
                tracing::info!(cell = %cell.spec.name, "clearing the cell of a pod that is not there");
                // One that cannot be cleared now keeps nobody from working.
                let freed = kind.cells.free(&cell.spec.name, Some(Duration::ZERO));
                if let Err(error) = freed.await {
                    tracing::error!(cell = %cell.spec.name, %error, "it could not be cleared");
                }
                continue;
            }
            for run in cell.runs() {
                if run.spec.name.as_str() != MAIN {
                    let _ = cell.stop_run(&run, Some(Duration::ZERO)).await;
                    cell.forget(&run);
                }
            }
        }
        let ids: HashSet<_> = records.iter().map(|record| record.id.as_str()).collect();
        blocking(|| {
            for id in kind.outfitter.roots.list().unwrap_or_default() {
                if !ids.contains(id.as_str())
                    && let Err(error) = kind.outfitter.roots.remove(&id)
                {
                    tracing::error!(%id, %error, "a root that no pod has could not be removed");
                }
            }
            for entry in std::fs::read_dir(&kind.outfitter.files)
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
}
