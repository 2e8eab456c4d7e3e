//! Units: things with a record, one main process in a cell of its own, and a
//! restart policy. Pods are one kind of them, virtual machines another; what
//! both have in common is here, what they are made of is theirs.
//!
//! A unit's record is its commit point. It is written when all that the unit is
//! made of is there, and removed before any of that goes; whatever has no
//! record has no owner, and is cleared after a restart. So whenever the daemon
//! dies, each unit is whole or gone.

mod damaged;
mod events;
mod kind;
mod names;
mod record;
mod recover;
mod supervise;
mod unit;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use strata_tasks::TaskGroup;
use strata_types::{Error, ErrorKind, Label, Result};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use events::{Event, Events};
pub(crate) use kind::UnitKind;
pub(crate) use names::Names;
pub(crate) use record::Record;
pub(crate) use recover::clear_dir;
pub(crate) use unit::Unit;
pub use view::Health;
pub(crate) use view::View;

use crate::blocking::blocking;
use crate::cells::FreedNames;
use crate::clock::{now_ms, now_ns};

/// All units of one kind. Cheap to clone.
pub(crate) struct Units<K: UnitKind>(Arc<Inner<K>>);

struct Inner<K: UnitKind> {
    kind: Arc<K>,
    /// A record for each unit.
    dir: PathBuf,
    events: Events,
    table: Mutex<BTreeMap<Label, Arc<Unit<K>>>>,
    /// Names at which something is being made or removed.
    busy: Mutex<HashMap<Label, Weak<tokio::sync::Mutex<()>>>>,
    gone: Mutex<FreedNames>,
    /// Those of other kinds too.
    names: Names,
    /// Units whose records cannot be read, and where those are.
    damaged: Mutex<BTreeMap<Label, PathBuf>>,
    /// Those that are not started after a restart until a caller starts them.
    held: Mutex<HashSet<Label>>,
    /// The daemon ends: nothing is started again.
    closing: CancellationToken,
    tasks: TaskGroup,
}

impl<K: UnitKind> Clone for Units<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: UnitKind> Units<K> {
    /// The units whose records are in `dir`; none is known before
    /// [`Units::recover`].
    pub(crate) fn new(kind: Arc<K>, dir: PathBuf, names: Names, tasks: TaskGroup) -> Self {
        let gone = FreedNames::open(dir.join("gone"));
        Self(Arc::new(Inner {
            kind,
            dir,
            events: Events::default(),
            table: Mutex::default(),
            busy: Mutex::default(),
            gone: Mutex::new(gone),
            names,
            damaged: Mutex::default(),
            held: Mutex::default(),
            closing: CancellationToken::new(),
            tasks,
        }))
    }

    pub(crate) fn kind(&self) -> &Arc<K> {
        &self.0.kind
    }

    /// After a restart these are not started, also where they were to run: a
    /// caller starts them.
    pub(crate) fn hold(&self, names: &[Label]) {
        guard(&self.0.held).extend(names.iter().cloned());
    }

    pub(crate) fn events(&self) -> &Events {
        &self.0.events
    }

    /// One name at a time.
    fn name_lock(&self, name: &Label) -> Arc<tokio::sync::Mutex<()>> {
        let mut busy = guard(&self.0.busy);
        if let Some(lock) = busy.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        busy.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        busy.insert(name.clone(), Arc::downgrade(&lock));
        lock
    }

    /// Makes a unit, and starts it if requested. The same again is fine.
    pub(crate) async fn create(&self, spec: K::Spec, start: bool) -> Result<Arc<Unit<K>>> {
        let (unit, is_new) = self.create_wanted(spec, start).await?;
        let started = match start {
            true => unit.start().await,
            false => Ok(()),
        };
        let Err(error) = started else {
            return Ok(unit);
        };
        // Bad input changes nothing, also when only the start finds it out.
        if is_new && error.kind() == ErrorKind::Invalid {
            let name = K::name(&unit.record().spec).to_string();
            if let Err(left) = self.destroy("name", &name, Some(Duration::ZERO)).await {
                tracing::error!(kind = K::NOUN, name, %left, "refused unit not removed");
            }
        }
        Err(error)
    }

    async fn create_wanted(&self, spec: K::Spec, wanted: bool) -> Result<(Arc<Unit<K>>, bool)> {
        let name = K::name(&spec).clone();
        let lock = self.name_lock(&name);
        let _busy = lock.lock().await;
        self.refuse_damaged(&name)?;
        if let Some(unit) = self.get(&name) {
            return match unit.record().spec == spec {
                true => Ok((unit, false)),
                false => Err(Error::already_exists(format!(
                    "there is a {} {name:?} already, with other settings",
                    K::NOUN,
                    name = name.as_str()
                ))
                .in_field(format!("{}.name", K::NOUN))
                .with_hint("destroy it first, or take another name")),
            };
        }
        self.0.names.take(&name, K::NOUN)?;
        let made = self.make(&name, spec, wanted).await;
        if made.is_err() {
            self.0.names.give_back(&name);
        }
        Ok((made?, true))
    }

    /// Makes what a unit has, and its record. The caller has the name.
    async fn make(&self, name: &Label, spec: K::Spec, wanted: bool) -> Result<Arc<Unit<K>>> {
        let id = Uuid::now_v7().to_string();
        let made = self.0.kind.prepare(&id, &spec).await?;
        let record = Record {
            wanted,
            wanted_since_ns: now_ns(),
            pins: blocking(|| self.0.kind.pins(&spec)),
            ..Record::new(id, spec, made, now_ms())
        };
        let unit = Arc::new(Unit::new(self, record));
        if let Err(error) = unit.write() {
            self.0.kind.release(&unit.record()).await?;
            return Err(error);
        }
        guard(&self.0.table).insert(name.clone(), unit.clone());
        self.0.kind.on_known(&unit.record().id);
        unit.tell("created");
        Ok(unit)
    }

    fn get(&self, name: &Label) -> Option<Arc<Unit<K>>> {
        guard(&self.0.table).get(name).cloned()
    }

    /// A unit by its name, which came from the field `field`.
    pub(crate) fn find(&self, field: &str, text: &str) -> Result<Arc<Unit<K>>> {
        let name = label(field, text)?;
        self.refuse_damaged(&name)?;
        self.get(&name).ok_or_else(|| unknown::<K>(field, &name))
    }

    /// Every unit in the order of their names.
    pub(crate) fn list(&self) -> Vec<Arc<Unit<K>>> {
        guard(&self.0.table).values().cloned().collect()
    }

    /// Stops a unit and takes everything of it away. One that is gone already
    /// is fine.
    pub(crate) async fn destroy(
        &self,
        field: &str,
        text: &str,
        grace: Option<Duration>,
    ) -> Result<()> {
        let name = label(field, text)?;
        let lock = self.name_lock(&name);
        // A stop is not kept waiting by it, and what it waits for ends soon.
        let _busy = lock.lock().await;
        if self.is_damaged(&name) {
            return self.clear_damaged(&name, grace).await;
        }
        let Some(unit) = self.get(&name) else {
            return match guard(&self.0.gone).contains(&name.clone().into()) {
                true => Ok(()),
                false => Err(unknown::<K>(field, &name)),
            };
        };
        // Known as gone before it is: a caller that repeats the request after a
        // death of the daemon in between gets this answer.
        guard(&self.0.gone).add(&name.clone().into());
        unit.destroy(grace).await?;
        self.forget(&unit, &name);
        let released = self.0.kind.release(&unit.record()).await;
        self.0.names.give_back(&name);
        released
    }

    fn forget(&self, unit: &Arc<Unit<K>>, name: &Label) {
        let mut table = guard(&self.0.table);
        if table
            .get(name)
            .is_some_and(|known| Arc::ptr_eq(known, unit))
        {
            table.remove(name);
        }
    }

    /// The daemon ends: whatever ends from now on is the next one's business.
    pub(crate) fn close(&self) {
        self.0.closing.cancel();
    }

    /// Stops every unit, all at once, as `--stop-workloads` requires. Their
    /// desired state stays: the next start of the daemon brings them back.
    pub(crate) async fn stop_all(&self, grace: Duration) -> Result<()> {
        let units = self.list();
        let stops = units.iter().map(|unit| unit.rest(grace));
        futures_util::future::join_all(stops)
            .await
            .into_iter()
            .collect()
    }
}

fn label(field: &str, text: &str) -> Result<Label> {
    text.parse().map_err(|why| {
        let text: String = text.chars().take(80).collect();
        Error::invalid(field, format!("{text:?} {why}"))
    })
}

fn unknown<K: UnitKind>(field: &str, name: &Label) -> Error {
    Error::not_found(format!("there is no {} {:?}", K::NOUN, name.as_str())).in_field(field)
}
