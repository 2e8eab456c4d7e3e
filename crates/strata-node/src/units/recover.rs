//! After a restart of the daemon: units are found again by their records.
//!
//! One whose process lives goes on. One that was being started is started
//! anew, one that was being stopped or destroyed is. What has no record is
//! cleared by its kind.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_cell::read_record;
use strata_types::pod::{PodState, RestartPolicy};
use strata_types::{Ending, Result};
use tokio::sync::OwnedMutexGuard;

use super::{Kind, Record, Unit, Units, guard};
use crate::blocking::blocking;

/// What is left to do for a unit that was found again.
pub(crate) enum Unfinished<K: Kind> {
    Start(Arc<Unit<K>>),
    End(Arc<Unit<K>>, Ending, Duration),
    Stop(Arc<Unit<K>>),
    Destroy(Arc<Unit<K>>),
}

/// The records that were found.
pub(crate) struct Loaded<K: Kind> {
    pub(crate) records: Vec<Record<K>>,
    /// Some could not be read: what seems to belong to nobody may be theirs,
    /// and stays.
    pub(crate) some_unread: bool,
}

impl<K: Kind> Units<K> {
    /// Finds the records; nothing is touched yet.
    pub(crate) fn load(&self) -> io::Result<Loaded<K>> {
        let loaded = blocking(|| read_all::<K>(&self.0.folder))?;
        let mut table = guard(&self.0.table);
        for record in &loaded.records {
            let unit = Arc::new(Unit::new(self, record.clone()));
            let name = K::name(&record.spec).clone();
            // From before names were shared, two may have the same.
            if let Err(error) = self.0.names.take(&name, K::NOUN) {
                tracing::warn!(%error, "found again under a name that is taken");
            }
            table.insert(name, unit);
        }
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
                let state = match &main {
                    Some(_) => PodState::Stopped,
                    None => PodState::Created,
                };
                let ending = main.as_ref().and_then(|main| main.view().ending);
                unit.note(|view| {
                    view.state = state;
                    view.reason = ending.map(|e| e.to_string()).unwrap_or_default();
                    view.main = main;
                });
                Some(Unfinished::Stop(unit.clone()))
            }
        }
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
            let _ = unit.change(|record| record.wanted = false);
            unit.note(|view| {
                view.state = PodState::Exited;
                view.reason = ending.to_string();
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

fn read_all<K: Kind>(folder: &Path) -> io::Result<Loaded<K>> {
    let (mut records, mut some_unread) = (Vec::new(), false);
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
        some_unread = true;
        tracing::error!(kind = K::NOUN, path = %path.display(), why,
            "a record cannot be read; it, and all that may be its, is left alone");
    }
    Ok(Loaded {
        records,
        some_unread,
    })
}
