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
use strata_types::Ending;
use strata_types::pod::PodState;

use super::{Kind, Record, Unit, Units, guard};
use crate::blocking::blocking;

/// What is left to do for a unit that was found again.
pub(crate) enum Unfinished<K: Kind> {
    Start(Arc<Unit<K>>),
    End(Arc<Unit<K>>, Ending, Duration),
    Stop(Arc<Unit<K>>),
    Destroy(Arc<Unit<K>>),
}

impl<K: Kind> Units<K> {
    /// Finds the records; nothing is touched yet.
    pub(crate) fn load(&self) -> io::Result<Vec<Record<K>>> {
        let records = blocking(|| read_all::<K>(&self.0.folder))?;
        let mut table = guard(&self.0.table);
        for record in &records {
            let unit = Arc::new(Unit::new(self, record.clone()));
            table.insert(K::name(&record.spec).clone(), unit);
        }
        Ok(records)
    }

    /// Takes up each unit where it was left. What takes time goes on in the
    /// background.
    pub(crate) fn resume(&self) {
        for unit in self.list() {
            if let Some(unfinished) = self.look_at(&unit) {
                tokio::spawn(self.clone().finish(unfinished));
            }
        }
    }

    fn look_at(&self, unit: &Arc<Unit<K>>) -> Option<Unfinished<K>> {
        let record = unit.record();
        let main = self.0.kind.main(&record);
        if record.destroying {
            return Some(Unfinished::Destroy(unit.clone()));
        }
        match main {
            Some(main) if !main.view().is_over() => {
                unit.running(&self.0.kind, main);
                (!record.wanted).then(|| Unfinished::Stop(unit.clone()))
            }
            Some(main) if record.wanted => {
                let view = main.view();
                let lived = view.ended_ns.saturating_sub(view.started_ns);
                let ending = view.ending.unwrap_or(Ending::Lost);
                unit.note(|view| view.main = Some(main));
                let lived = Duration::from_nanos(lived);
                Some(Unfinished::End(unit.clone(), ending, lived))
            }
            None if record.wanted => Some(Unfinished::Start(unit.clone())),
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

    async fn finish(self, unfinished: Unfinished<K>) {
        let done = match unfinished {
            Unfinished::Start(unit) => {
                let started = unit.start().await;
                started.map_err(|error| (unit, error))
            }
            Unfinished::Stop(unit) => {
                let stopped = match unit.view().state {
                    PodState::Running => unit.stop(None).await,
                    // Only what may be left of it.
                    _ => unit.finish(None, None).await,
                };
                stopped.map_err(|error| (unit, error))
            }
            Unfinished::Destroy(unit) => {
                let record = unit.record();
                let name = K::name(&record.spec).as_str();
                let destroyed = self.destroy("name", name, None).await;
                destroyed.map_err(|error| (unit.clone(), error))
            }
            Unfinished::End(unit, ending, lived) => {
                self.end(&unit, ending, lived).await;
                Ok(())
            }
        };
        if let Err((unit, error)) = done {
            let name = K::name(&unit.record().spec).clone();
            tracing::error!(kind = K::NOUN, name = %name, %error, "not taken up again");
        }
    }

    /// It ended while nobody looked.
    async fn end(&self, unit: &Arc<Unit<K>>, ending: Ending, lived: Duration) {
        if let Err(error) = unit.finish(None, None).await {
            tracing::error!(kind = K::NOUN, %error, "what an ended one left could not be cleared");
        }
        let record = unit.record();
        // The end of the machine, or of an init, is no end of its own.
        let lost = ending == Ending::Lost;
        if lost {
            if let Err(error) = unit.start().await {
                tracing::error!(kind = K::NOUN, %error, "not started again");
            }
        } else if K::restart(&record.spec).wants_restart(ending) {
            unit.note(|view| view.state = PodState::Starting);
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

fn read_all<K: Kind>(folder: &Path) -> io::Result<Vec<Record<K>>> {
    let mut records = Vec::new();
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
        match read_record::<Record<K>>(&path) {
            Ok(Some(record)) => records.push(record),
            Ok(None) => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => {
                tracing::error!(kind = K::NOUN, path = %path.display(), %error,
                    "a record cannot be read; it is left alone");
            }
        }
    }
    Ok(records)
}
