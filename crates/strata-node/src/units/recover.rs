//! After a restart of the daemon: units are found again by their records.
//!
//! One whose process lives goes on. One that was being started is started
//! anew, one that was being stopped or destroyed is. What has no record is
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

use super::{Kind, Record, Unit, Units, guard};
use crate::blocking::blocking;
use crate::cells::Executable;

/// What is left to do for a unit that was found again.
pub(crate) enum Unfinished<K: Kind> {
    Start(Arc<Unit<K>>),
    End(Arc<Unit<K>>, Ending, Duration),
    Stop(Arc<Unit<K>>),
    Destroy(Arc<Unit<K>>),
}

/// The records that were found.
struct Loaded<K: Kind> {
    records: Vec<Record<K>>,
    /// The files of those that cannot be read, by the names of their units:
    /// what seems to belong to no unit may be theirs, and stays.
    damaged: BTreeMap<Label, PathBuf>,
}

impl<K: Kind> Units<K> {
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
                // One that cannot be cleared now keeps nobody from working.
                if let Err(error) = cells.free(name, Some(Duration::ZERO)).await {
                    tracing::error!(cell = %name, %error, "it could not be cleared");
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
        let mut loaded = blocking(|| read_all::<K>(&self.0.folder))?;
        let changed = self.0.kind.adopt(&mut loaded.records);
        let mut table = guard(&self.0.table);
        for (i, record) in loaded.records.iter().enumerate() {
            let unit = Arc::new(Unit::new(self, record.clone()));
            if changed.contains(&i)
                && let Err(error) = unit.write()
            {
                tracing::error!(kind = K::NOUN, name = %K::name(&record.spec), %error,
                    "record could not be brought up to date; the next start of the node tries again");
            }
            let name = K::name(&record.spec).clone();
            // From before names were shared, two may have the same.
            if let Err(error) = self.0.names.take(&name, K::NOUN) {
                tracing::warn!(%error, "found again under a name that is taken");
            }
            table.insert(name, unit);
        }
        for name in loaded.damaged.keys() {
            if let Err(error) = self.0.names.take(name, K::NOUN) {
                tracing::warn!(%error, "damaged under a name that is taken");
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
                // Held from now on: whoever comes finds it in order.
                let Ok(busy) = unit.busy.clone().try_lock_owned() else {
                    continue;
                };
                tokio::spawn(self.clone().finish(unfinished, busy));
            }
        }
    }

    fn look_at(&self, unit: &Arc<Unit<K>>) -> Option<Unfinished<K>> {
        let record = unit.record();
        let main = self.0.kind.main(&record);
        if record.destroying {
            unit.note(|view| view.state = PodState::Destroying);
            return Some(Unfinished::Destroy(unit.clone()));
        }
        if self.is_held(&record, main.as_ref()) {
            unit.note(|view| {
                view.state = PodState::Stopped;
                view.reason = "it waits for its server".to_owned();
                view.main = main;
            });
            return Some(Unfinished::Stop(unit.clone()));
        }
        match main {
            Some(main) if !main.view().is_over() => {
                unit.running(&self.0.kind, main);
                if record.wanted {
                    return None;
                }
                unit.note(|view| view.state = PodState::Stopping);
                Some(Unfinished::Stop(unit.clone()))
            }
            Some(main) if record.wanted && main.run > record.wanted_since_ns => {
                let view = main.view();
                let lived = view.ended_ns.saturating_sub(view.started_ns);
                let ending = view.ending.unwrap_or(Ending::Lost);
                unit.note(|view| {
                    view.state = PodState::Starting;
                    view.main = Some(main);
                });
                let lived = Duration::from_nanos(lived);
                Some(Unfinished::End(unit.clone(), ending, lived))
            }
            _ if record.wanted => {
                unit.note(|view| view.state = PodState::Starting);
                Some(Unfinished::Start(unit.clone()))
            }
            main => {
                let ending = main.as_ref().and_then(|main| main.view().ending);
                let ending = ending.map(|ending| ending.to_string());
                let (state, reason) = match (record.rest, &main) {
                    (Some(rest), _) => (rest.state, rest.reason),
                    (None, Some(_)) => (PodState::Stopped, ending.unwrap_or_default()),
                    (None, None) => (PodState::Created, String::new()),
                };
                unit.note(|view| {
                    view.state = state;
                    view.reason = reason;
                    view.main = main;
                });
                Some(Unfinished::Stop(unit.clone()))
            }
        }
    }

    /// Whether it would be started, and must not be yet.
    fn is_held(&self, record: &Record<K>, main: Option<&Arc<Executable>>) -> bool {
        let policy = K::restart(&record.spec);
        let starts = match main.map(|main| (main.run, main.view())) {
            Some((_, view)) if !view.is_over() => false,
            Some((run, view)) if run > record.wanted_since_ns => match view.ending {
                Some(Ending::Lost) | None => policy != RestartPolicy::Never,
                Some(ending) => policy.wants_restart(ending),
            },
            _ => true,
        };
        record.wanted && starts && guard(&self.0.held).contains(K::name(&record.spec))
    }

    async fn finish(self, unfinished: Unfinished<K>, busy: OwnedMutexGuard<()>) {
        let done = match unfinished {
            Unfinished::Start(unit) => {
                let started = start_anew(&unit, busy).await;
                started.map_err(|error| (unit, error))
            }
            Unfinished::Stop(unit) => {
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
            Unfinished::Destroy(unit) => {
                drop(busy);
                let record = unit.record();
                let name = K::name(&record.spec).as_str();
                let destroyed = self.destroy("name", name, None).await;
                destroyed.map_err(|error| (unit.clone(), error))
            }
            Unfinished::End(unit, ending, lived) => {
                self.end(&unit, ending, lived, busy).await;
                Ok(())
            }
        };
        if let Err((unit, error)) = done {
            let name = K::name(&unit.record().spec).clone();
            tracing::error!(kind = K::NOUN, name = %name, %error, "not taken up again");
        }
    }

    /// It ended while nobody looked.
    async fn end(
        &self,
        unit: &Arc<Unit<K>>,
        ending: Ending,
        lived: Duration,
        busy: OwnedMutexGuard<()>,
    ) {
        if let Err(error) = unit.finish(None, None).await {
            tracing::error!(kind = K::NOUN, %error, "what an ended one left could not be cleared");
        }
        let record = unit.record();
        // The end of the machine, or of an init, is no end of its own; but what
        // is to run once at most does not run twice.
        let policy = K::restart(&record.spec);
        if ending == Ending::Lost && policy != RestartPolicy::Never {
            if let Err(error) = start_anew(unit, busy).await {
                tracing::error!(kind = K::NOUN, %error, "not started again");
            }
        } else if policy.wants_restart(ending) {
            unit.note(|view| view.state = PodState::Starting);
            drop(busy);
            unit.clone().again_after(lived, &ending.to_string()).await;
        } else {
            let why = ending.to_string();
            let _ = unit.change(|record| record.come_to_rest(PodState::Exited, &why));
            unit.note(|view| {
                view.state = PodState::Exited;
                view.reason = why;
            });
            unit.tell(&format!("ended: {ending}"));
        }
    }
}

/// Starts it; what an earlier start had made is taken away first. Where its
/// policy says so, it is tried again until it works.
async fn start_anew<K: Kind>(unit: &Arc<Unit<K>>, busy: OwnedMutexGuard<()>) -> Result<()> {
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

/// Removes what is in a folder under names other than these.
pub(crate) fn clear_folder(folder: &Path, known: &HashSet<&str>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.to_str().is_none_or(|name| !known.contains(name))
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            let path = entry.path();
            tracing::error!(path = %path.display(), %error, "it is nobody's, and stays");
        }
    }
}

fn read_all<K: Kind>(folder: &Path) -> io::Result<Loaded<K>> {
    let (mut records, mut damaged) = (Vec::new(), BTreeMap::new());
    for entry in std::fs::read_dir(folder)? {
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
            "record cannot be read: its name is held, and what runs of it is left alone until it is destroyed or assigned again");
        let name = path.file_stem().and_then(|name| name.to_str());
        if let Some(name) = name.and_then(|name| name.parse().ok()) {
            damaged.insert(name, path);
        }
    }
    Ok(Loaded { records, damaged })
}
