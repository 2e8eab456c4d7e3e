//! The runs a cell remembers: those that live, and the latest that have ended.
//! The event of an end may come before its start is known here; it is kept
//! until then.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use strata_types::ExecutableName;

use super::executable::Executable;

/// Runs of one name that are kept: the latest and those before it.
const MAX_RUNS_PER_NAME: usize = 3;
/// Names of executables one cell remembers.
const MAX_NAMES: usize = 1000;

#[derive(Default)]
pub(super) struct RunTable {
    /// The runs of each name, the latest last.
    by_name: BTreeMap<ExecutableName, Vec<Arc<Executable>>>,
    early_ends: HashSet<u64>,
}

impl RunTable {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Executable>> {
        self.by_name.values().flatten()
    }

    pub(super) fn latest(&self) -> impl Iterator<Item = &Arc<Executable>> {
        self.by_name.values().filter_map(|runs| runs.last())
    }

    pub(super) fn latest_of(&self, name: &ExecutableName) -> Option<&Arc<Executable>> {
        self.by_name.get(name)?.last()
    }

    /// The run that has ended; none when its start is not known yet, which
    /// [`RunTable::add`] then reports.
    pub(super) fn ended(&mut self, run: u64) -> Option<Arc<Executable>> {
        let known = self.all().find(|known| known.run == run).cloned();
        if known.is_none() {
            self.early_ends.insert(run);
        }
        known
    }

    /// Adds a run; answers whether it has ended already.
    pub(super) fn add(&mut self, run: Arc<Executable>) -> bool {
        let has_ended = self.early_ends.remove(&run.run);
        let runs = self.by_name.entry(run.spec.name.clone()).or_default();
        runs.push(run);
        runs.sort_by_key(|run| run.run);
        has_ended
    }

    pub(super) fn forget(&mut self, run: &Arc<Executable>) {
        if let Some(runs) = self.by_name.get_mut(&run.spec.name) {
            runs.retain(|known| !Arc::ptr_eq(known, run));
            if runs.is_empty() {
                self.by_name.remove(&run.spec.name);
            }
        }
    }

    /// Drops what is too old to remember.
    pub(super) fn forget_old(&mut self) -> Vec<Arc<Executable>> {
        let mut forgotten = Vec::new();
        for runs in self.by_name.values_mut() {
            let excess = runs.len().saturating_sub(MAX_RUNS_PER_NAME);
            forgotten.extend(runs.drain(..excess));
        }
        while self.by_name.len() > MAX_NAMES {
            let is_over =
                |runs: &Vec<Arc<Executable>>| runs.iter().all(|run| run.view().is_at_rest());
            let oldest = self
                .by_name
                .iter()
                .filter(|(_, runs)| is_over(runs))
                .min_by_key(|(_, runs)| runs.last().map(|run| run.run))
                .map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            forgotten.extend(self.by_name.remove(&oldest).into_iter().flatten());
        }
        forgotten
    }
}
