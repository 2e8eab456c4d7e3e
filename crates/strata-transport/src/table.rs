//! The connections there are, in groups with a bound each, so that a crowd
//! makes room at its own cost.
//!
//! ```text
//! accepted ─▶ Handshake(source) ─▶ Unauthenticated(source) ─▶ Caller(credential)
//!                             └──── certificate ──────▶
//! ```
//!
//! A full group of handshakes or unauthenticated connections closes its oldest
//! idle member for the newcomer: a client that means to call sends its
//! ClientHello, and then its request, at once, so what is old and silent is not
//! a caller. Refusing the newcomer instead would let silent connections lock
//! others out. Where all sources together have too many, the source with most
//! of them pays. A full group of a caller closes an idle connection of the same
//! caller, and refuses the newcomer where all are in use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::Limits;
use crate::budget::CallerKey;
use crate::source::Source;

/// What a connection is counted with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Handshake(Source),
    Unauthenticated(Source),
    Caller(CallerKey),
}

/// The kinds of groups that also have a bound for all sources together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Handshake,
    Unauthenticated,
    Caller,
}

impl Group {
    fn kind(&self) -> Kind {
        match self {
            Self::Handshake(_) => Kind::Handshake,
            Self::Unauthenticated(_) => Kind::Unauthenticated,
            Self::Caller(_) => Kind::Caller,
        }
    }
}

/// All connections of the listeners that share it.
pub(crate) struct ConnectionTable {
    limits: Limits,
    started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    groups: HashMap<Group, Vec<Arc<ConnectionEntry>>>,
    handshakes: usize,
    unauthenticated: usize,
}

/// What the table knows of a connection.
struct ConnectionEntry {
    /// It has sent its ClientHello.
    hello: AtomicBool,
    /// Number of concurrent requests.
    in_flight: AtomicUsize,
    /// Milliseconds since the table was made.
    idle_since: AtomicU64,
    evicted: CancellationToken,
}

impl ConnectionEntry {
    fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) == 0
    }

    /// The lower, the sooner it makes room: connections that sent nothing at
    /// all before those that did, and of those the oldest.
    fn rank(&self) -> (bool, u64) {
        let hello = self.hello.load(Ordering::Relaxed);
        (hello, self.idle_since.load(Ordering::Relaxed))
    }
}

/// Every connection of the group is in use.
#[derive(Debug)]
pub(crate) struct GroupFull;

impl ConnectionTable {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            started: Instant::now(),
            inner: Mutex::default(),
        })
    }

    fn guard(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes in a connection that was just accepted.
    pub(crate) fn accept(self: &Arc<Self>, source: Source) -> Connection {
        let connection = Connection {
            table: self.clone(),
            source,
            seat: Arc::new(ConnectionEntry {
                hello: AtomicBool::new(false),
                in_flight: AtomicUsize::new(0),
                idle_since: AtomicU64::new(self.now()),
                evicted: CancellationToken::new(),
            }),
            group: Mutex::new(None),
        };
        // Handshakes always make room.
        let _ = connection.join(Group::Handshake(source), self.limits.handshakes_per_source);
        connection
    }

    /// How many are in a group, for tests.
    #[cfg(test)]
    fn count(&self, group: &Group) -> usize {
        self.guard().groups.get(group).map_or(0, Vec::len)
    }
}

impl Inner {
    fn total(&mut self, kind: Kind) -> Option<&mut usize> {
        match kind {
            Kind::Handshake => Some(&mut self.handshakes),
            Kind::Unauthenticated => Some(&mut self.unauthenticated),
            Kind::Caller => None,
        }
    }

    fn add(&mut self, group: &Group, seat: Arc<ConnectionEntry>) {
        self.groups.entry(group.clone()).or_default().push(seat);
        if let Some(total) = self.total(group.kind()) {
            *total += 1;
        }
    }

    fn remove(&mut self, group: &Group, seat: &Arc<ConnectionEntry>) {
        let Some(members) = self.groups.get_mut(group) else {
            return;
        };
        let Some(at) = members.iter().position(|one| Arc::ptr_eq(one, seat)) else {
            return;
        };
        members.swap_remove(at);
        if members.is_empty() {
            self.groups.remove(group);
        }
        if let Some(total) = self.total(group.kind()) {
            *total -= 1;
        }
    }

    /// Closes the member that was idle for longest; where none is idle and
    /// they owe us an identity, the oldest.
    fn evict(&mut self, group: &Group) -> bool {
        let Some(members) = self.groups.get(group) else {
            return false;
        };
        let idle = members.iter().filter(|one| one.is_idle());
        let mut victim = idle.min_by_key(|one| one.rank());
        if victim.is_none() && group.kind() != Kind::Caller {
            victim = members.iter().min_by_key(|one| one.rank());
        }
        let Some(victim) = victim.cloned() else {
            return false;
        };
        victim.evicted.cancel();
        self.remove(group, &victim);
        true
    }

    /// The group of this kind with most members.
    fn largest(&self, kind: Kind) -> Option<Group> {
        let groups = self.groups.iter().filter(|(group, _)| group.kind() == kind);
        let largest = groups.max_by_key(|(_, members)| members.len());
        largest.map(|(group, _)| group.clone())
    }
}

/// A connection's place. Released when it is dropped.
pub(crate) struct Connection {
    table: Arc<ConnectionTable>,
    source: Source,
    seat: Arc<ConnectionEntry>,
    group: Mutex<Option<Group>>,
}

impl Connection {
    /// Where it comes from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Ends when the connection is to be closed for others.
    pub(crate) async fn evicted(&self) {
        self.seat.evicted.cancelled().await;
    }

    /// Its ClientHello is there: it means to call.
    pub(crate) fn has_said_hello(&self) {
        self.seat.hello.store(true, Ordering::Relaxed);
    }

    /// The handshake is done and the peer is unauthenticated.
    pub(crate) fn is_unauthenticated_peer(&self) {
        let limit = self.table.limits.unauthenticated_per_source;
        // Unauthenticated connections always make room.
        let _ = self.join(Group::Unauthenticated(self.source), limit);
    }

    /// The peer has authenticated. The first proof counts: a connection that
    /// several callers share is the first one's.
    pub(crate) fn is_of(&self, caller: &CallerKey, limit: usize) -> Result<(), GroupFull> {
        let known = {
            let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
            matches!(&*group, Some(Group::Caller(_)))
        };
        match known {
            true => Ok(()),
            false => self.join(Group::Caller(caller.clone()), limit),
        }
    }

    /// A request begins; it is under way until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.seat.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    fn join(&self, group: Group, limit: usize) -> Result<(), GroupFull> {
        let table = &self.table;
        let mut own = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = table.guard();
        if self.seat.evicted.is_cancelled() {
            return Ok(());
        }
        while inner.groups.get(&group).map_or(0, Vec::len) >= limit.max(1) {
            if !inner.evict(&group) {
                return Err(GroupFull);
            }
        }
        let (kind, most) = match group.kind() {
            Kind::Handshake => (Kind::Handshake, table.limits.handshakes),
            Kind::Unauthenticated => (Kind::Unauthenticated, table.limits.unauthenticated),
            Kind::Caller => (Kind::Caller, usize::MAX),
        };
        while inner.total(kind).is_some_and(|total| *total >= most.max(1)) {
            let Some(largest) = inner.largest(kind) else {
                break;
            };
            if !inner.evict(&largest) {
                break;
            }
        }
        if let Some(before) = own.take() {
            inner.remove(&before, &self.seat);
        }
        self.seat.idle_since.store(table.now(), Ordering::Relaxed);
        inner.add(&group, self.seat.clone());
        *own = Some(group);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let own = self.group.get_mut();
        let own = own.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(group) = own {
            self.table.guard().remove(&group, &self.seat);
        }
    }
}

/// A request that is under way on a connection.
pub(crate) struct InFlight(Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let seat = &self.0.seat;
        seat.idle_since.store(self.0.table.now(), Ordering::Relaxed);
        seat.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
