//! One unit: started, stopped, destroyed, one of these at a time.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use strata_tasks::TaskGroup;
use strata_types::pod::PodState;
use strata_types::{Error, ErrorKind, Label, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Inner, Record, UnitKind, Units, View, guard, supervise};
use crate::blocking::blocking;
use crate::cells::Executable;
use crate::clock::now_ns;

pub(crate) struct Unit<K: UnitKind> {
    units: Weak<Inner<K>>,
    record: Mutex<Record<K>>,
    path: PathBuf,
    view: watch::Sender<View>,
    /// Held while it is started, stopped or destroyed.
    pub(super) busy: Arc<tokio::sync::Mutex<()>>,
    /// Its end is a failure, whatever it exits with.
    pub(super) given_up: AtomicBool,
    /// Its record on disk is older than that in memory.
    pub(super) unwritten: AtomicBool,
}

impl<K: UnitKind> Unit<K> {
    pub(super) fn new(units: &Units<K>, record: Record<K>) -> Self {
        let name = K::name(&record.spec);
        Self {
            units: Arc::downgrade(&units.0),
            path: units.0.dir.join(format!("{}.json", name.as_str())),
            view: watch::Sender::new(View::new(PodState::Created, None)),
            record: Mutex::new(record),
            busy: Arc::default(),
            given_up: AtomicBool::default(),
            unwritten: AtomicBool::default(),
        }
    }

    pub(super) fn name(&self) -> Label {
        K::name(&guard(&self.record).spec).clone()
    }

    /// What is kept of it.
    pub(crate) fn record(&self) -> Record<K> {
        guard(&self.record).clone()
    }

    /// What is known of it now.
    pub(crate) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// What is known of it, and changes of it.
    pub(crate) fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub(crate) fn kind(&self) -> Result<Arc<K>> {
        match self.units.upgrade() {
            Some(units) => Ok(units.kind.clone()),
            None => Err(Error::unavailable("the node is shutting down")),
        }
    }

    /// What its tasks run in; none when the daemon ends.
    pub(crate) fn tasks(&self) -> Option<TaskGroup> {
        self.units.upgrade().map(|units| units.tasks.clone())
    }

    /// Ends when the daemon does.
    pub(super) fn closing(&self) -> CancellationToken {
        match self.units.upgrade() {
            Some(units) => units.closing.clone(),
            None => {
                let closed = CancellationToken::new();
                closed.cancel();
                closed
            }
        }
    }

    /// Changes what is kept, on disk first.
    pub(super) fn change(&self, change: impl FnOnce(&mut Record<K>)) -> Result<()> {
        let mut record = guard(&self.record);
        let mut next = record.clone();
        change(&mut next);
        self.write_record(&next)?;
        *record = next;
        Ok(())
    }

    pub(super) fn write(&self) -> Result<()> {
        self.write_record(&guard(&self.record))
    }

    /// Whole or not at all: beside the old one, then in its place.
    fn write_record(&self, record: &Record<K>) -> Result<()> {
        let temporary = self.path.with_extension("new");
        let written = blocking(|| {
            let bytes = serde_json::to_vec(record)?;
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&bytes)?;
            // After a loss of power it is the old one or the new one.
            file.sync_data()?;
            fs::rename(&temporary, &self.path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Error::exhausted(format!("cannot write the {}'s record: {error}", K::NOUN))
                    .with_hint("make room on the disk of the data directory")
            }
            _ => Error::internal(format!("cannot write the {}'s record: {error}", K::NOUN)),
        })
    }

    /// Changes what is known, where the state may change so.
    pub(super) fn set(&self, state: PodState, change: impl FnOnce(&mut View)) -> bool {
        self.view.send_if_modified(|view| {
            let may = view.state == state || view.state.may_become(state);
            if may {
                view.state = state;
                view.reason.clear();
                view.next_start_at_ms = 0;
                change(view);
            }
            may
        })
    }

    /// Changes what is known within a state.
    pub(crate) fn note(&self, change: impl FnOnce(&mut View)) {
        self.view.send_modify(change);
    }

    /// Reports an event to the listeners.
    pub(crate) fn tell(&self, message: &str) {
        let Some(units) = self.units.upgrade() else {
            return;
        };
        let (name, id) = {
            let record = guard(&self.record);
            (K::name(&record.spec).clone(), record.id.clone())
        };
        let state = self.view.borrow().state;
        tracing::info!(kind = K::NOUN, name = %name, %state, "{message}");
        units.events.tell(name.as_str(), &id, state, message);
    }

    /// Starts it; answers once its process runs. One that runs is fine.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let _busy = self.busy.lock().await;
        if self.view().state == PodState::Running {
            return Ok(());
        }
        self.refuse_going()?;
        self.want()?;
        self.begin_or_fail().await
    }

    /// Brings it up, once. The caller holds `busy`.
    pub(super) async fn begin_or_fail(self: &Arc<Self>) -> Result<()> {
        if let Err(error) = self.begin().await {
            // No caller waits for it any more, so it is not tried again.
            let why = error.to_string();
            self.change(|record| record.set_final_state(PodState::Failed, &why))?;
            self.set(PodState::Failed, |view| view.reason = why);
            self.tell(&format!("could not be started: {error}"));
            return Err(error);
        }
        Ok(())
    }

    /// Writes down that it is to run, unless it was made so and this is the
    /// first time.
    fn want(&self) -> Result<()> {
        if guard(&self.record).wanted && self.view().state == PodState::Created {
            return Ok(());
        }
        self.change(|record| {
            record.wanted = true;
            record.wanted_since_ns = now_ns();
            record.restarts = 0;
            record.backoff = Default::default();
            record.final_state = None;
        })
    }

    fn refuse_going(&self) -> Result<()> {
        match self.view().state {
            PodState::Destroying => Err(Error::wrong_state(format!(
                "{} {:?} is being destroyed",
                K::NOUN,
                K::name(&self.record().spec).as_str()
            ))),
            _ => Ok(()),
        }
    }

    /// Starts it. The caller holds `busy`, and handles a failure.
    pub(super) async fn begin(self: &Arc<Self>) -> Result<()> {
        let kind = self.kind()?;
        let record = self.record();
        self.given_up.store(false, Ordering::Relaxed);
        self.set(PodState::Starting, |view| view.health = Default::default());
        match kind.start(&record).await {
            Ok(main) => {
                self.running(&kind, main);
                self.tell("started");
                Ok(())
            }
            Err(error) => {
                if let Err(left) = kind.teardown(&record).await {
                    tracing::error!(kind = K::NOUN, name = %K::name(&record.spec), %left,
                        "unit not torn down after a failed start");
                }
                Err(error)
            }
        }
    }

    /// Records that it runs, and monitors it.
    pub(super) fn running(self: &Arc<Self>, kind: &Arc<K>, main: Arc<Executable>) {
        self.set(PodState::Starting, |_| {});
        self.set(PodState::Running, |view| view.main = Some(main.clone()));
        if let Some(tasks) = self.tasks() {
            let (unit, main) = (Arc::downgrade(self), main.clone());
            tasks.restart("unit-monitor", move || {
                supervise::until_end(unit.clone(), main.clone())
            });
        }
        kind.monitor(self.clone(), main);
    }

    /// Requests its end, and kills it after the grace period.
    pub(crate) async fn stop(self: &Arc<Self>, grace: Option<Duration>) -> Result<()> {
        // Before anything else: a task that is about to restart it checks this.
        self.unwant()?;
        let _busy = self.busy.lock().await;
        // A start that was under way may have set it to run again.
        if self.record().wanted {
            self.unwant()?;
        }
        self.wind_down(grace).await
    }

    /// Writes down that it is not to run. A full disk does not keep it from
    /// stopping: it may run elsewhere soon. Then it is written when there is
    /// room again.
    fn unwant(self: &Arc<Self>) -> Result<()> {
        match self.change(|record| record.wanted = false) {
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                let name = self.name();
                tracing::warn!(kind = K::NOUN, %name, %error, "unit stopped; desired state not saved");
                guard(&self.record).wanted = false;
                if !self.unwritten.swap(true, Ordering::Relaxed)
                    && let Some(tasks) = self.tasks()
                {
                    let unit = Arc::downgrade(self);
                    tasks.restart("unit-record-writer", move || {
                        supervise::write_later(unit.clone())
                    });
                }
                Ok(())
            }
            changed => changed,
        }
    }

    /// The same for a while only: it comes back with the daemon.
    pub(super) async fn rest(self: &Arc<Self>, grace: Duration) -> Result<()> {
        let _busy = self.busy.lock().await;
        if self.record().wanted {
            // Its end is no end of its own.
            self.change(|record| record.wanted_since_ns = now_ns())?;
        }
        self.wind_down(Some(grace)).await
    }

    /// The caller holds `busy`.
    async fn wind_down(self: &Arc<Self>, grace: Option<Duration>) -> Result<()> {
        let view = self.view();
        match view.state {
            // Or it was being stopped, and that was cut short.
            PodState::Running | PodState::Stopping => {}
            PodState::Waiting => {
                self.set(PodState::Stopped, |_| {});
                self.tell("stopped");
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.set(PodState::Stopping, |_| {});
        self.tell("stopping");
        let how = self.end(view.main.as_ref(), grace).await?;
        let ending = view.main.and_then(|main| main.view().ending);
        let how = how.or_else(|| ending.map(|ending| ending.to_string()));
        self.set(PodState::Stopped, |view| {
            view.reason = how.unwrap_or_default();
        });
        self.tell("stopped");
        Ok(())
    }

    /// Ends its process and takes away what the start made.
    pub(super) async fn finish(
        &self,
        main: Option<&Arc<Executable>>,
        grace: Option<Duration>,
    ) -> Result<()> {
        self.end(main, grace).await.map(drop)
    }

    /// The same; how its process ended, where its exit status does not show it.
    async fn end(
        &self,
        main: Option<&Arc<Executable>>,
        grace: Option<Duration>,
    ) -> Result<Option<String>> {
        let kind = self.kind()?;
        let record = self.record();
        let stopped = match main {
            Some(main) => kind.stop(&record, main, grace).await,
            None => Ok(None),
        };
        let how = stopped.unwrap_or_else(|error| {
            let name = self.name();
            tracing::warn!(kind = K::NOUN, %name, %error, "unit not stopped gracefully");
            None
        });
        kind.teardown(&record).await?;
        Ok(how)
    }

    /// Kills what runs, without the lock: what stops or destroys the unit holds
    /// that, and finds it ended.
    pub(crate) fn kill(&self) -> Result<()> {
        match self.view().main.filter(|main| !main.view().is_over()) {
            Some(main) => main.kill(),
            None => Ok(()),
        }
    }

    /// Stops it permanently and removes its record.
    pub(super) async fn destroy(self: &Arc<Self>, grace: Option<Duration>) -> Result<()> {
        let marked = self.change(|record| {
            record.wanted = false;
            record.destroying = true;
        });
        match marked {
            // It makes room: want of it must not keep it from going.
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                let name = self.name();
                tracing::warn!(kind = K::NOUN, %name, %error, "unit destroyed; mark not saved");
            }
            marked => marked?,
        }
        let _busy = self.busy.lock().await;
        let view = self.view();
        self.set(PodState::Destroying, |_| {});
        self.finish(view.main.as_ref(), grace).await?;
        match blocking(|| fs::remove_file(&self.path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::internal(format!(
                    "cannot remove the {}'s record: {error}",
                    K::NOUN
                )));
            }
            _ => {}
        }
        self.tell("destroyed");
        Ok(())
    }
}
