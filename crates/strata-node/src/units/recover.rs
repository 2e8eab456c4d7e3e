//! After a restart of the daemon: units are found again by their records.
//!
//! One whose process lives goes on. One that was being started is started
//! again, one that was being stopped or destroyed is. What has no record is
//! cleared by its kind.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_cell::read_record;
use strata_network::Endpoint;
use strata_types::pod::{PodState, RestartPolicy};
use strata_types::{CellName, Ending, Error, Label, Result};
use tokio::sync::OwnedMutexGuard;

use super::{Record, Unit, UnitKind, Units, guard};
use crate::blocking::blocking;
use crate::cells::Executable;

/// What is left to do for a unit that was found again.
pub(crate) enum RecoveryAction<K: UnitKind> {
    Start(Arc<Unit<K>>),
    End(Arc<Unit<K>>, Ending, Duration),
    Stop(Arc<Unit<K>>),
    Destroy(Arc<Unit<K>>),
}

/// The records that were found.
struct Loaded<K: UnitKind> {
    records: Vec<Record<K>>,
    /// The files of those that cannot be read, by the names of their units:
    /// what seems to belong to no unit may be theirs, and stays.
    damaged: BTreeMap<Label, PathBuf>,
}

impl<K: UnitKind> Units<K> {
    /// Finds all units again by their records, and clears what has none.
    pub(crate) async fn recover(&self) -> Result<Vec<Record<K>>> {
        let failed = |error: io::Error| {
            Error::internal(format!("cannot read the records of {}s: {error}", K::NOUN))
        };
        let loaded = self.load().map_err(failed)?;
        self.clear_cells(&loaded).await;
        if loaded.damaged.is_empty() {
            let ids = loaded.records.iter().map(|record| record.id.as_str());
            blocking(|| self.0.kind.clear_all_but(&ids.collect()));
        }
        Ok(loaded.records)
    }

    /// Clears cells that no unit has, and whatever callers of the daemon before
    /// had started in those that one has.
    async fn clear_cells(&self, loaded: &Loaded<K>) {
        let records = loaded.records.iter();
        let known: HashSet<_> = records.map(|record| K::cell(&record.spec)).collect();
        let damaged: HashSet<CellName> = loaded.damaged.keys().cloned().map(Into::into).collect();
        let cells = self.0.kind.cells();
        for cell in cells.list(None) {
            let name = &cell.spec.name;
            if damaged.contains(name) {
                continue;
            }
            if !known.contains(name) {
                tracing::info!(cell = %name, "clearing the cell of a {} that is not there", K::NOUN);
                // A unit that cannot be cleared now does not block the others.
                if let Err(error) = cells.free(name, Some(Duration::ZERO)).await {
                    tracing::error!(cell = %name, %error, "orphaned cell not removed");
                }
                continue;
            }
            for run in cell.runs() {
                if run.spec.name.as_str() != K::MAIN {
                    let _ = cell.stop_run(&run, Some(Duration::ZERO)).await;
                    cell.forget(&run);
                }
            }
        }
    }

    /// Endpoints of units that run, and addresses of those that do not.
    pub(crate) fn endpoints(&self) -> (Vec<Endpoint>, Vec<Ipv4Addr>) {
        let (mut running, mut resting) = (Vec::new(), Vec::new());
        for unit in self.list() {
            let record = unit.record();
            let main = self.0.kind.main(&record);
            let endpoint = K::endpoint(&record);
            match main.is_some_and(|main| !main.view().is_over()) {
                true => running.extend(endpoint),
                false => resting.extend(endpoint.map(|endpoint| endpoint.address)),
            }
        }
        (running, resting)
    }

    /// Finds the records; nothing is touched yet.
    fn load(&self) -> io::Result<Loaded<K>> {
        let mut loaded = blocking(|| read_all::<K>(&self.0.dir))?;
        let changed = self.0.kind.adopt(&mut loaded.records);
        let mut table = guard(&self.0.table);
        for (i, record) in loaded.records.iter().enumerate() {
            let unit = Arc::new(Unit::new(self, record.clone()));
            if changed.contains(&i)
                && let Err(error) = unit.write()
            {
                tracing::error!(kind = K::NOUN, name = %K::name(&record.spec), %error,
                    "unit record not updated; retried at the next start");
            }
            let name = K::name(&record.spec).clone();
            // From before names were shared, two may have the same.
            if let Err(error) = self.0.names.take(&name, K::NOUN) {
                tracing::warn!(kind = K::NOUN, %name, %error, "unit recovered under a name that is taken");
            }
            table.insert(name, unit);
        }
        for name in loaded.damaged.keys() {
            if let Err(error) = self.0.names.take(name, K::NOUN) {
                tracing::warn!(kind = K::NOUN, %name, %error, "damaged unit has a name that is taken");
            }
        }
        guard(&self.0.damaged).extend(loaded.damaged.clone());
        Ok(loaded)
    }

    /// Takes up each unit where it was left. What takes time goes on in the
    /// background.
    pub(crate) fn resume(&self) {
        for unit in self.list() {
            if let Some(unfinished) = self.look_at(&unit) {
                // Held from now on: later callers find it in order.
                let Ok(busy) = unit.busy.clone().try_lock_owned() else {
                    continue;
                };
                self.0
                    .tasks
                    .detached("unit-recovery", self.clone().finish(unfinished, busy));
            }
        }
    }

    fn look_at(&self, unit: &Arc<Unit<K>>) -> Option<RecoveryAction<K>> {
        let record = unit.record();
        let main = self.0.kind.main(&record);
        if record.destroying {
            unit.note(|view| view.state = PodState::Destroying);
            return Some(RecoveryAction::Destroy(unit.clone()));
        }
        if self.is_held(&record, main.as_ref()) {
            unit.note(|view| {
                view.state = PodState::Stopped;
                view.reason = "it waits for its server".to_owned();
                view.main = main;
            });
            return Some(RecoveryAction::Stop(unit.clone()));
        }
        match main {
            Some(main) if !main.view().is_over() => {
                unit.running(&self.0.kind, main);
                if record.wanted {
                    return None;
                }
                unit.note(|view| view.state = PodState::Stopping);
                Some(RecoveryAction::Stop(unit.clone()))
            }
            Some(main) if record.wanted && main.run > record.wanted_since_ns => {
                let view = main.view();
                let lived = view.ended_ns.saturating_sub(view.started_ns);
                let ending = view.ending.unwrap_or(Ending::Lost);
                let (state, reason) = after_end(K::restart(&record.spec), ending);
                unit.note(|view| {
                    view.state = state;
                    view.reason = reason;
                    view.main = Some(main);
                });
                let lived = Duration::from_nanos(lived);
                Some(RecoveryAction::End(unit.clone(), ending, lived))
            }
            _ if record.wanted => {
                unit.note(|view| view.state = PodState::Starting);
                Some(RecoveryAction::Start(unit.clone()))
            }
            main => {
                let ending = main.as_ref().and_then(|main| main.view().ending);
                let ending = ending.map(|ending| ending.to_string());
                let (state, reason) = match (record.final_state, &main) {
                    (Some(rest), _) => (rest.state, rest.reason),
                    (None, Some(_)) => (PodState::Stopped, ending.unwrap_or_default()),
                    (None, None) => (PodState::Created, String::new()),
                };
                unit.note(|view| {
                    view.state = state;
                    view.reason = reason;
                    view.main = main;
                });
                Some(RecoveryAction::Stop(unit.clone()))
            }
        }
    }

    /// Whether it would be started, and must not be yet.
    fn is_held(&self, record: &Record<K>, main: Option<&Arc<Executable>>) -> bool {
        let policy = K::restart(&record.spec);
        let starts = match main.map(|main| (main.run, main.view())) {
            Some((_, view)) if !view.is_over() => false,
            Some((run, view)) if run > record.wanted_since_ns => {
                starts_again(policy, view.ending.unwrap_or(Ending::Lost))
            }
            _ => true,
        };
        record.wanted && starts && guard(&self.0.held).contains(K::name(&record.spec))
    }

    async fn finish(self, unfinished: RecoveryAction<K>, busy: OwnedMutexGuard<()>) {
        let done = match unfinished {
            RecoveryAction::Start(unit) => {
                let started = start_again(&unit, busy).await;
                started.map_err(|error| (unit, error))
            }
            RecoveryAction::Stop(unit) => {
                let stopped = match unit.view().state {
                    PodState::Stopping => {
                        drop(busy);
                        unit.stop(None).await
                    }
                    // Only what may be left of it.
                    _ => unit.finish(None, None).await,
                };
                stopped.map_err(|error| (unit, error))
            }
            RecoveryAction::Destroy(unit) => {
                drop(busy);
                let record = unit.record();
                let name = K::name(&record.spec).as_str();
                let destroyed = self.destroy("name", name, None).await;
                destroyed.map_err(|error| (unit.clone(), error))
            }
            RecoveryAction::End(unit, ending, lived) => {
                self.end(&unit, ending, lived, busy).await;
                Ok(())
            }
        };
        if let Err((unit, error)) = done {
            let name = K::name(&unit.record().spec).clone();
            tracing::error!(kind = K::NOUN, name = %name, %error, "unit not resumed");
        }
    }

    /// It ended while the daemon did not run.
    async fn end(
        &self,
        unit: &Arc<Unit<K>>,
        ending: Ending,
        lived: Duration,
        busy: OwnedMutexGuard<()>,
    ) {
        if let Err(error) = unit.finish(None, None).await {
            let name = unit.name();
            tracing::error!(kind = K::NOUN, %name, %error, "exited unit not torn down");
        }
        let record = unit.record();
        let starts = starts_again(K::restart(&record.spec), ending);
        if starts && ending == Ending::Lost {
            if let Err(error) = start_again(unit, busy).await {
                let name = unit.name();
                tracing::error!(kind = K::NOUN, %name, %error, "unit not restarted");
            }
        } else if starts {
            unit.note(|view| view.state = PodState::Starting);
            drop(busy);
            unit.clone().again_after(lived, &ending.to_string()).await;
        } else {
            let why = ending.to_string();
            let _ = unit.change(|record| record.set_final_state(PodState::Exited, &why));
            unit.note(|view| {
                view.state = PodState::Exited;
                view.reason = why;
            });
            unit.tell(&format!("ended: {ending}"));
        }
    }
}

/// Whether one that ended while no daemon ran is started again. The end of the
/// machine, or of an init, is no end of its own; but what is to run once at most
/// does not run twice.
fn starts_again(policy: RestartPolicy, ending: Ending) -> bool {
    match ending {
        Ending::Lost => policy != RestartPolicy::Never,
        ending => policy.wants_restart(ending),
    }
}

/// What one that ended while no daemon ran is from the moment it is found, also
/// while what it left is being cleared: what is not started again has ended.
fn after_end(policy: RestartPolicy, ending: Ending) -> (PodState, String) {
    match starts_again(policy, ending) {
        true => (PodState::Starting, String::new()),
        false => (PodState::Exited, ending.to_string()),
    }
}

/// Starts it; what an earlier start had made is taken away first. Where its
/// policy requires it, it is tried again until it works.
async fn start_again<K: UnitKind>(unit: &Arc<Unit<K>>, busy: OwnedMutexGuard<()>) -> Result<()> {
    unit.finish(None, None).await?;
    let record = unit.record();
    if !record.wanted {
        return Ok(());
    }
    if !K::restart(&record.spec).wants_restart(Ending::Code(1)) {
        return unit.begin_or_fail().await;
    }
    if let Err(error) = unit.begin().await {
        drop(busy);
        let why = format!("could not be started: {error}");
        unit.clone().again_after(Duration::ZERO, &why).await;
    }
    Ok(())
}

/// Removes what is in a directory under names other than these.
pub(crate) fn clear_dir(dir: &Path, known: &HashSet<&str>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.to_str().is_none_or(|name| !known.contains(name))
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            let path = entry.path();
            tracing::error!(path = %path.display(), %error, "orphaned directory not removed");
        }
    }
}

fn read_all<K: UnitKind>(dir: &Path) -> io::Result<Loaded<K>> {
    let (mut records, mut damaged) = (Vec::new(), BTreeMap::new());
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {}
            Some("new") => {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            _ => continue,
        }
        let why = match read_record::<Record<K>>(&path) {
            Ok(Some(record)) => {
                records.push(record);
                continue;
            }
            Ok(None) => "it is empty".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::error!(kind = K::NOUN, path = %path.display(), why,
            "unit record not readable: its name stays reserved and its processes are left running until it is destroyed or assigned again");
        let name = path.file_stem().and_then(|name| name.to_str());
        if let Some(name) = name.and_then(|name| name.parse().ok()) {
            damaged.insert(name, path);
        }
    }
    Ok(Loaded { records, damaged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_meanwhile_and_is_not_started_again_has_ended_at_once() {
        use RestartPolicy::{Always, Never, OnFailure};
        let (ok, failed) = (Ending::Code(0), Ending::Code(3));
        let exited = |ending: Ending| (PodState::Exited, ending.to_string());
        let starting = || (PodState::Starting, String::new());
        let table = [
            (Never, ok, exited(ok)),
            (Never, failed, exited(failed)),
            (Never, Ending::OutOfMemory, exited(Ending::OutOfMemory)),
            (Never, Ending::Lost, exited(Ending::Lost)),
            (OnFailure, ok, exited(ok)),
            (OnFailure, failed, starting()),
            (OnFailure, Ending::Lost, starting()),
            (Always, ok, starting()),
            (Always, Ending::Lost, starting()),
        ];
        for (policy, ending, wanted) in table {
            assert_eq!(after_end(policy, ending), wanted, "{policy:?} {ending:?}");
        }
    }
}
