//! The instances that this node was assigned: told of by the server, kept on
//! disk, each brought to what it is to be by a worker of its own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_api::strata::v1;
use strata_types::Result;
use strata_types::pod::{Backoff, PodState};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ask::{Kind, SecretValues, UnitName};
use super::hosting::Hosting;
use super::outbox::Outbox;
use super::report::{Circumstances, report};
use super::state::{Assigned, Kept};
use super::work;
use crate::blocking::blocking;

/// Instances that are worked on at the same time.
const AT_ONCE: usize = 32;
/// More than any node can run; a server that assigns more is mistaken.
const MOST: usize = 10_000;

/// All instances of this node. Cheap to clone.
#[derive(Clone)]
pub(super) struct Instances(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) hosting: Hosting,
    pub(super) kept: Kept,
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
    /// Where workers run, whoever wakes them.
    pub(super) runtime: Handle,
    table: Mutex<BTreeMap<String, Arc<Instance>>>,
}

/// One instance.
pub(super) struct Instance {
    state: Mutex<State>,
    /// Something else is wanted of it.
    pub(super) news: Notify,
}

/// What is known of an instance beside its unit.
pub(super) struct State {
    pub(super) assigned: Assigned,
    pub(super) going: bool,
    /// What follows when it is gone.
    pub(super) next: Option<Assigned>,
    pub(super) fenced: bool,
    /// The server has no record of it: it rests, and is destroyed then.
    pub(super) orphaned_until: Option<Instant>,
    /// The one it had: the next generation gets it if it can.
    pub(super) address: Option<Ipv4Addr>,
    pub(super) backoff: Backoff,
    pub(super) retry_at: Option<Instant>,
    /// It is new, and was promised to others not to be started before.
    pub(super) hold_until: Option<Instant>,
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
                next: None,
                fenced: false,
                orphaned_until: None,
                address: None,
                backoff: Backoff::default(),
                retry_at: None,
                hold_until: None,
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
    /// them until a server says so.
    pub(super) fn open(
        hosting: Hosting,
        kept: Kept,
        orphan_grace: Duration,
        closing: CancellationToken,
    ) -> Self {
        let assigned = blocking(|| kept.assigned());
        let units = assigned.iter().map(|one| one.ask.unit().name).collect();
        blocking(|| hosting.secrets().clear_all_but(&units));
        let table = assigned
            .into_iter()
            .map(|one| (one.id.clone(), Instance::new(one)));
        Self(Arc::new(Shared {
            table: Mutex::new(table.collect()),
            hosting,
            kept,
            outbox: Outbox::default(),
            places: Semaphore::new(AT_ONCE),
            leaving: AtomicUsize::new(0),
            others: AtomicBool::new(false),
            fence_grace: Mutex::default(),
            orphan_grace,
            closing,
            runtime: Handle::current(),
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
            (id.clone(), instance.state().assigned.ask.unit())
        };
        table.iter().map(unit).collect()
    }

    /// The server wants this node to have an instance, with these secrets.
    /// What is new here waits for as long as `hold` says.
    pub(super) fn assign(
        &self,
        assigned: Assigned,
        secrets: &SecretValues,
        hold: Duration,
    ) -> Result<()> {
        let id = assigned.id.clone();
        let mut table = self.table();
        let held = (!hold.is_zero()).then(|| Instant::now() + hold);
        let unit = assigned.ask.unit();
        blocking(|| self.0.hosting.secrets().put(&unit.name, secrets))?;
        // Before anything of it can be started.
        self.0.hosting.set_fenced(&unit, !assigned.available)?;
        let instance = match table.get(&id) {
            Some(known) => known.clone(),
            None if table.len() >= MOST => {
                let why = format!("this node has {MOST} instances, which is the most");
                self.0.outbox.refused(&id, assigned.generation, why);
                return Ok(());
            }
            None => {
                blocking(|| self.0.kept.write(&assigned))?;
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
                if assigned.epoch > state.assigned.epoch {
                    // It was elsewhere meanwhile.
                    state.hold_until = held;
                }
                let mut next = state.assigned.clone();
                next.update(assigned);
                if next != state.assigned {
                    blocking(|| self.0.kept.write(&next))?;
                    state.assigned = next;
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
    pub(super) fn withdraw(&self, id: &str, epoch: u64) {
        let table = self.table();
        let Some(instance) = table.get(id).cloned() else {
            return self.0.outbox.gone(id, 0, epoch);
        };
        {
            let mut state = instance.state();
            state.assigned.epoch = state.assigned.epoch.max(epoch);
            state.next = None;
            state.retry_at = None;
            state.again = true;
            if !std::mem::replace(&mut state.going, true) {
                self.0.leaving.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(table);
        self.wake(&instance);
    }

    /// Whether something is here that waits for the end of a promise.
    pub(super) fn has_new(&self) -> bool {
        let now = Instant::now();
        let waits = |one: &Arc<Instance>| one.state().hold_until.is_some_and(|until| until > now);
        self.table().values().any(waits)
    }

    /// Stops all: they may run elsewhere soon.
    pub(super) fn fence(&self, grace: Duration) {
        *self
            .0
            .fence_grace
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = grace;
        let all: Vec<_> = self.table().values().cloned().collect();
        for instance in all {
            if instance.state().assigned.available {
                continue;
            }
            if !std::mem::replace(&mut instance.state().fenced, true) {
                self.wake(&instance);
            }
        }
    }

    /// Sees to it that a worker looks at an instance.
    pub(super) fn wake(&self, instance: &Arc<Instance>) {
        let mut state = instance.state();
        state.again = true;
        let idle = !std::mem::replace(&mut state.working, true);
        drop(state);
        instance.news.notify_one();
        if idle {
            let work = work::work(self.clone(), instance.clone());
            self.0.runtime.spawn(work);
        }
    }

    /// Forgets an instance, unless something else is wanted of it by now. The
    /// worker's last act.
    pub(super) fn drop_out(&self, instance: &Arc<Instance>) -> bool {
        let mut table = self.table();
        let state = instance.state();
        if state.again {
            return false;
        }
        let id = &state.assigned.id;
        let unit = state.assigned.ask.unit();
        blocking(|| self.0.hosting.secrets().remove(&unit.name));
        // Its unit is gone, or was never its own.
        if let Err(error) = self.0.hosting.set_fenced(&unit, false) {
            tracing::warn!(id, %error, "the mark of an instance that is gone stays");
        }
        if let Err(error) = blocking(|| self.0.kept.remove(id)) {
            tracing::error!(id, %error, "an instance that is gone is remembered");
        }
        table.remove(id);
        true
    }

    /// How an instance is; none when it is not here any more.
    pub(super) fn report(&self, id: &str) -> Option<v1::InstanceReport> {
        let instance = self.table().get(id).cloned()?;
        let (assigned, circumstances) = {
            let state = instance.state();
            let assigned = state.assigned.clone();
            let circumstances = Circumstances {
                pulling: self.0.hosting.pull_progress(&assigned.ask),
                fenced: state.fenced,
                touched: state.touched,
            };
            (assigned, circumstances)
        };
        let seen = self.0.hosting.look(&assigned.ask.unit());
        Some(report(&assigned, seen.as_ref(), circumstances))
    }

    /// Tells the server of whatever happens to the units of a kind.
    pub(super) async fn listen(self, kind: Kind) {
        use tokio::sync::broadcast::error::RecvError;
        let mut events = self.0.hosting.events(kind);
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = self.0.closing.cancelled() => return,
            };
            match event {
                Ok(event) => self.on_event(kind, &event.name),
                Err(RecvError::Lagged(_)) => {
                    self.ids().iter().for_each(|id| self.0.outbox.instance(id));
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn on_event(&self, kind: Kind, name: &str) {
        let Ok(name) = name.parse() else { return };
        let unit = UnitName { kind, name };
        let seen = self.0.hosting.look(&unit);
        let found = match &seen {
            Some(seen) => {
                let Some(id) = &seen.instance else { return };
                self.table().get(id).cloned()
            }
            None => {
                let is_it =
                    |instance: &&Arc<Instance>| instance.state().assigned.ask.unit() == unit;
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
        // Somebody here took it away: the server still wants it.
        let goes = seen.is_none_or(|seen| seen.state == PodState::Destroying);
        if goes && idle {
            self.wake(&instance);
        }
    }
}
