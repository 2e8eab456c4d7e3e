//! The instances that this node was assigned: sent by the server, kept on disk,
//! each brought to what it is to be by a worker of its own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_api::strata::v1;
use strata_tasks::TaskGroup;
use strata_types::Result;
use strata_types::pod::{Backoff, PodState};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assigned_spec::{SecretValues, UnitName, UnitType};
use super::host::UnitHost;
use super::outbox::Outbox;
use super::report::{ReportContext, report};
use super::state::{Assigned, AssignmentStore, Progress};
use super::work;
use crate::blocking::blocking;

/// Instances that are worked on at the same time.
const MAX_CONCURRENT: usize = 32;
/// More than any node can run; a server that assigns more is mistaken.
const MAX_INSTANCES: usize = 10_000;

/// All instances of this node. Cheap to clone.
#[derive(Clone)]
pub(super) struct Instances(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) unit_runtime: Arc<dyn UnitHost>,
    pub(super) store: AssignmentStore,
    pub(super) outbox: Outbox,
    pub(super) places: Semaphore,
    /// How many are on their way out: what they have is free soon.
    pub(super) leaving: AtomicUsize,
    /// There are other nodes, which may have what this one lacks.
    pub(super) others: AtomicBool,
    /// How long those may take to end that must not run on.
    pub(super) fence_grace: Mutex<Duration>,
    /// How long what no server knows rests before it is destroyed.
    pub(super) orphan_grace: Duration,
    /// The daemon ends: nothing more is begun.
    pub(super) closing: CancellationToken,
    /// Where workers run, whichever task wakes them.
    pub(super) tasks: TaskGroup,
    table: Mutex<BTreeMap<String, Arc<Instance>>>,
}

pub(super) struct Instance {
    state: Mutex<State>,
    /// Another state of it is desired.
    pub(super) news: Notify,
}

/// What is known of an instance beside its unit.
pub(super) struct State {
    pub(super) assigned: Assigned,
    pub(super) going: bool,
    /// It may run elsewhere by now: it is given no time to end.
    pub(super) kill: bool,
    /// What follows when it is gone.
    pub(super) next: Option<Assigned>,
    /// Why another node is to have it. It is refused once nothing of it is here.
    pub(super) refusing: Option<String>,
    /// The disk has an earlier assignment, as it was full: it is written later.
    pub(super) unwritten: bool,
    pub(super) fenced: bool,
    /// The server has no record of it: it rests, and is destroyed then.
    pub(super) orphaned_until: Option<Instant>,
    /// The one it had: the next generation gets it if it can.
    pub(super) address: Option<Ipv4Addr>,
    pub(super) backoff: Backoff,
    pub(super) retry_at: Option<Instant>,
    /// It is new, and was promised to others not to be started before.
    pub(super) hold_until: Option<Instant>,
    /// It was assigned to the daemon before this one, and not since.
    found: bool,
    /// Since when it waits for what others are about to give back.
    pub(super) short_since: Option<Instant>,
    /// A worker is at it.
    pub(super) working: bool,
    /// It is to look again.
    pub(super) again: bool,
    touched: bool,
}

impl Instance {
    fn new(assigned: Assigned) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                assigned,
                going: false,
                kill: false,
                next: None,
                refusing: None,
                unwritten: false,
                fenced: false,
                orphaned_until: None,
                address: None,
                backoff: Backoff::default(),
                retry_at: None,
                hold_until: None,
                found: false,
                short_since: None,
                working: false,
                again: false,
                touched: false,
            }),
            news: Notify::new(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instances {
    /// Those that were assigned before the daemon started. Nothing is done for
    /// them until a server requests it.
    pub(super) fn open(
        unit_runtime: Arc<dyn UnitHost>,
        store: AssignmentStore,
        orphan_grace: Duration,
        tasks: &TaskGroup,
    ) -> Self {
        let assigned = blocking(|| store.assigned());
        let units = assigned
            .iter()
            .map(|one| one.unit_spec.unit().name)
            .collect();
        unit_runtime.keep_secrets_of(&units);
        let table = assigned.into_iter().map(|one| {
            let (id, instance) = (one.id.clone(), Instance::new(one));
            instance.state().found = true;
            (id, instance)
        });
        Self(Arc::new(Shared {
            table: Mutex::new(table.collect()),
            unit_runtime,
            store,
            outbox: Outbox::default(),
            places: Semaphore::new(MAX_CONCURRENT),
            leaving: AtomicUsize::new(0),
            others: AtomicBool::new(false),
            fence_grace: Mutex::default(),
            orphan_grace,
            closing: tasks.shutdown().clone(),
            tasks: tasks.on(Handle::current()),
        }))
    }

    pub(super) fn table(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Instance>>> {
        let table = self.0.table.lock();
        table.unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all.
    pub(super) fn ids(&self) -> Vec<String> {
        self.table().keys().cloned().collect()
    }

    /// The unit of each.
    pub(super) fn units(&self) -> Vec<(String, UnitName)> {
        let table = self.table();
        let unit = |(id, instance): (&String, &Arc<Instance>)| {
            (id.clone(), instance.state().assigned.unit_spec.unit())
        };
        table.iter().map(unit).collect()
    }

    /// What was assigned of an instance that is here.
    pub(super) fn known(&self, id: &str) -> Option<Assigned> {
        let instance = self.table().get(id).cloned()?;
        let assigned = instance.state().assigned.clone();
        Some(assigned)
    }

    /// The server assigns an instance to this node, with these secrets. What is
    /// new here waits for as long as `hold` requires.
    ///
    /// What is new and cannot be written is an error. What is known here is
    /// changed in memory also if it cannot be written: it has to be stopped or
    /// replaced on a full disk too, and is written later.
    pub(super) fn assign(
        &self,
        assigned: Assigned,
        secrets: &SecretValues,
        hold: Duration,
    ) -> Result<()> {
        let id = assigned.id.clone();
        let mut table = self.table();
        let held = (!hold.is_zero()).then(|| Instant::now() + hold);
        let unit = assigned.unit_spec.unit();
        let project = assigned.unit_spec.project();
        match self.0.unit_runtime.put_secrets(&unit, project, secrets) {
            Err(error) if table.contains_key(&id) => {
                tracing::error!(id, %error, "secrets of an assignment not stored; it keeps those it has");
            }
            put => put?,
        }
        // Before anything of it can be started.
        self.0.unit_runtime.set_fenced(&unit, !assigned.available)?;
        let instance = match table.get(&id) {
            Some(known) => known.clone(),
            None if table.len() >= MAX_INSTANCES => {
                let why = format!("this node has {MAX_INSTANCES} instances, which is the most");
                let (generation, epoch) = (assigned.generation, assigned.epoch);
                self.0.outbox.refused(&id, generation, epoch, why);
                return Ok(());
            }
            None => {
                blocking(|| self.0.store.write(&assigned))?;
                let fresh = Instance::new(assigned.clone());
                fresh.state().hold_until = held;
                table.insert(id.clone(), fresh.clone());
                fresh
            }
        };
        {
            let mut state = instance.state();
            state.fenced = false;
            state.orphaned_until = None;
            if state.going {
                state.hold_until = held;
                state.next = Some(assigned);
            } else {
                let found = std::mem::take(&mut state.found);
                if waits_for_promise(&state.assigned, &assigned, found) {
                    state.hold_until = held;
                }
                let mut next = state.assigned.clone();
                next.update(assigned);
                if next != state.assigned {
                    state.assigned = next;
                    state.unwritten = true;
                    self.write(&mut state);
                    state.refusing = None;
                    state.backoff = Backoff::default();
                    state.retry_at = None;
                }
            }
            state.again = true;
        }
        drop(table);
        self.wake(&instance);
        self.0.outbox.instance(&id);
        Ok(())
    }

    /// The server wants this node to have an instance no more, of this placement
    /// or an earlier one.
    pub(super) fn withdraw(&self, id: &str, epoch: u64, kill: bool) {
        let table = self.table();
        let Some(instance) = table.get(id).cloned() else {
            return self.0.outbox.gone(id, 0, epoch);
        };
        {
            let mut state = instance.state();
            state.assigned.epoch = state.assigned.epoch.max(epoch);
            state.next = None;
            state.refusing = None;
            state.kill |= kill;
            state.retry_at = None;
            state.again = true;
            if !std::mem::replace(&mut state.going, true) {
                self.0.leaving.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(table);
        self.wake(&instance);
    }

    /// Writes what the disk does not have yet.
    pub(super) fn write(&self, state: &mut State) {
        if !state.unwritten {
            return;
        }
        match blocking(|| self.0.store.write(&state.assigned)) {
            Ok(()) => state.unwritten = false,
            Err(error) => {
                let id = &state.assigned.id;
                tracing::warn!(id, %error, "assignment not saved; tried again later");
            }
        }
    }

    /// Whether something is here that waits for the end of a promise. What runs
    /// does not: a node that returned is assigned again what it has.
    pub(super) fn has_new(&self) -> bool {
        let now = Instant::now();
        let runs = |unit: &UnitName| {
            let seen = self.0.unit_runtime.look(unit);
            seen.is_some_and(|seen| seen.state == PodState::Running && !seen.damaged)
        };
        let waits = |one: &Arc<Instance>| {
            let unit = {
                let state = one.state();
                let held = state.hold_until.is_some_and(|until| until > now);
                held.then(|| (state.going, state.assigned.unit_spec.unit()))
            };
            unit.is_some_and(|(going, unit)| going || !runs(&unit))
        };
        self.table().values().any(waits)
    }

    /// Stops all: they may run elsewhere soon. Whether any was not fenced yet.
    pub(super) fn fence(&self, grace: Duration) -> bool {
        *self
            .0
            .fence_grace
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = grace;
        let all: Vec<_> = self.table().values().cloned().collect();
        let mut newly = false;
        for instance in all {
            if instance.state().assigned.available {
                continue;
            }
            if !std::mem::replace(&mut instance.state().fenced, true) {
                self.wake(&instance);
                newly = true;
            }
        }
        newly
    }

    /// Ensures that a worker reconciles an instance.
    pub(super) fn wake(&self, instance: &Arc<Instance>) {
        let mut state = instance.state();
        state.again = true;
        let idle = !std::mem::replace(&mut state.working, true);
        drop(state);
        instance.news.notify_one();
        if idle {
            let (instances, instance) = (self.clone(), instance.clone());
            self.0.tasks.restart("instance-worker", move || {
                work::work(instances.clone(), instance.clone())
            });
        }
    }

    /// Removes an instance, unless another state of it is desired by now. The
    /// worker's last act.
    pub(super) fn remove_instance(&self, instance: &Arc<Instance>) -> bool {
        let mut table = self.table();
        let state = instance.state();
        if state.again {
            return false;
        }
        let id = &state.assigned.id;
        let unit = state.assigned.unit_spec.unit();
        self.0.unit_runtime.remove_secrets(&unit);
        // Its unit is gone, or was never its own.
        if let Err(error) = self.0.unit_runtime.set_fenced(&unit, false) {
            tracing::warn!(id, %error, "fence mark of a removed instance not cleared");
        }
        if let Err(error) = blocking(|| self.0.store.remove(id)) {
            tracing::error!(id, %error, "record of a removed instance not deleted");
        }
        table.remove(id);
        true
    }

    /// How an instance is; none when it is not here any more.
    pub(super) fn report(&self, id: &str) -> Option<v1::InstanceReport> {
        let instance = self.table().get(id).cloned()?;
        let (assigned, context) = {
            let state = instance.state();
            let assigned = state.assigned.clone();
            let context = ReportContext {
                pulling: self.0.unit_runtime.pull_progress(&assigned.unit_spec),
                fenced: state.fenced,
                touched: state.touched,
            };
            (assigned, context)
        };
        let seen = self.0.unit_runtime.look(&assigned.unit_spec.unit());
        Some(report(&assigned, seen.as_ref(), context))
    }

    /// Reports to the server whatever happens to the units of a kind.
    pub(super) async fn listen(self, kind: UnitType) {
        let mut events = self.0.unit_runtime.events(kind);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.0.closing.cancelled() => return,
            };
            match event {
                Some(Some(name)) => self.on_event(kind, &name),
                Some(None) => self.report_all(),
                None => return,
            }
        }
    }

    /// Reports to the server how every instance is.
    pub(super) fn report_all(&self) {
        self.ids().iter().for_each(|id| self.0.outbox.instance(id));
    }

    fn on_event(&self, kind: UnitType, name: &str) {
        let Ok(name) = name.parse() else { return };
        let unit = UnitName { kind, name };
        let seen = self.0.unit_runtime.look(&unit);
        let found = match &seen {
            Some(seen) => {
                let Some(id) = &seen.instance else { return };
                self.table().get(id).cloned()
            }
            None => {
                let is_it =
                    |instance: &&Arc<Instance>| instance.state().assigned.unit_spec.unit() == unit;
                self.table().values().find(is_it).cloned()
            }
        };
        let Some(instance) = found else { return };
        let (id, idle) = {
            let mut state = instance.state();
            state.touched = true;
            (state.assigned.id.clone(), !state.working)
        };
        self.0.outbox.instance(&id);
        // A local caller removed it: the server still requests it.
        let goes = seen.is_none_or(|seen| seen.state == PodState::Destroying);
        if goes && idle {
            self.wake(&instance);
        }
    }
}

/// Whether what is assigned again is new here, so that it is not started before
/// the end of what was promised to others. It is when it was elsewhere
/// meanwhile; and when a daemon that ended before it had started the instance
/// may have held it back: how long is not on disk, the end of the promise is.
fn waits_for_promise(known: &Assigned, next: &Assigned, found: bool) -> bool {
    next.epoch > known.epoch || (found && known.progress == Progress::Fresh)
}

#[cfg(test)]
mod tests {
    use super::super::assigned_spec::tests::pod;
    use super::*;

    #[test]
    fn what_was_held_back_before_a_restart_of_the_daemon_is_held_back_after_it() {
        let known = |epoch, progress| Assigned {
            epoch,
            progress,
            ..pod("i", "web", 1)
        };
        let (fresh, started) = (Progress::Fresh, Progress::Started(0));
        for (known_as, next, found, waits) in [
            // The same again disturbs no start.
            (known(3, fresh), 3, false, false),
            (known(3, fresh), 3, true, true),
            (known(3, started), 3, true, false),
            (known(3, started), 4, false, true),
            (known(3, started), 4, true, true),
        ] {
            let next = known(next, fresh);
            assert_eq!(waits_for_promise(&known_as, &next, found), waits);
        }
    }
}
