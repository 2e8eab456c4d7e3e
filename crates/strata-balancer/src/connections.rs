//! The connections there are, of one balancer or of all of a process, and which
//! of them makes room for a new one.
//!
//! Clients have no credential here, so a source of connections is an address,
//! or the /64 of an IPv6 address. A source that has its share loses its oldest
//! silent connection to its newest; where all sources together have too many,
//! the source with most of them does. A client that means to call sends its
//! ClientHello at once and is answered: so connections that no server has
//! answered go first, then those that have been idle for longest. Refusing, or
//! leaving newcomers to wait, would let silent connections lock others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How many connections a process carries where its descriptors suffice.
const MAX_CONNECTIONS: usize = 4096;
/// How many of them one source may have.
const PER_SOURCE: usize = 256;
/// What part of the descriptors of a process connections take at most, at two
/// for each.
const PART_OF_DESCRIPTORS: u64 = 4;

/// Bounds of the connections of one or more balancers.
#[derive(Debug)]
pub struct Connections {
    room: Arc<Semaphore>,
    per_source: usize,
    started: Instant,
    sources: Mutex<HashMap<Source, Vec<Arc<Entry>>>>,
}

/// The first 64 bits of an IPv6 address, or an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    V4(u32),
    V6(u64),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => {
                Self::V6(u64::try_from(address.to_bits() >> 64).unwrap_or(u64::MAX))
            }
        }
    }
}

/// What is known of a connection.
#[derive(Debug)]
struct Entry {
    /// A server has sent something to it.
    answered: AtomicBool,
    /// Milliseconds after the start at which bytes passed last.
    active_at: AtomicU64,
    evicted: Notify,
}

impl Entry {
    /// The lower, the sooner it makes room.
    fn rank(&self) -> (bool, u64) {
        let answered = self.answered.load(Ordering::Relaxed);
        (answered, self.active_at.load(Ordering::Relaxed))
    }
}

impl Connections {
    /// So many at once, and so many of one source.
    pub fn new(most: usize, per_source: usize) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most)),
            per_source: per_source.max(1),
            started: Instant::now(),
            sources: Mutex::default(),
        })
    }

    /// For all balancers of a process: they take a part of its descriptors and
    /// leave the others to what it does besides.
    pub fn of_process() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile).current;
        Self::new(most_within(limit), PER_SOURCE)
    }

    /// How many there are.
    pub fn in_use(&self) -> usize {
        self.sources().values().map(Vec::len).sum()
    }

    /// Enters a new connection of this address, in place of another where there
    /// are too many. Ready once that one has ended.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let source = Source::from(address);
        let permit = match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.evict_of_largest();
                Arc::clone(&self.room).acquire_owned().await.ok()?
            }
        };
        let entry = Arc::new(Entry {
            answered: AtomicBool::new(false),
            active_at: AtomicU64::new(self.now_ms()),
            evicted: Notify::new(),
        });
        let mut sources = self.sources();
        let own = sources.entry(source).or_default();
        if own.len() >= self.per_source {
            evict(own);
        }
        own.push(Arc::clone(&entry));
        drop(sources);
        Some(Connection {
            connections: Arc::clone(self),
            source,
            entry,
            _permit: permit,
        })
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<Source, Vec<Arc<Entry>>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evict_of_largest(&self) {
        if let Some(own) = self.sources().values_mut().max_by_key(|own| own.len()) {
            evict(own);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Ends the oldest silent connection of a source. One that is on its way out is
/// in the list no more, so that each newcomer ends another.
fn evict(own: &mut Vec<Arc<Entry>>) {
    let ranks = own.iter().enumerate().map(|(i, entry)| (entry.rank(), i));
    if let Some((_, i)) = ranks.min() {
        own.remove(i).evicted.notify_one();
    }
}

fn most_within(descriptors: Option<u64>) -> usize {
    let part = descriptors.map_or(u64::MAX, |all| all / PART_OF_DESCRIPTORS / 2);
    usize::try_from(part).map_or(MAX_CONNECTIONS, |part| part.clamp(1, MAX_CONNECTIONS))
}

/// A connection that is counted until it is dropped.
pub(super) struct Connection {
    connections: Arc<Connections>,
    source: Source,
    entry: Arc<Entry>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Ready once it has to make room for another.
    pub(super) async fn evicted(&self) {
        self.entry.evicted.notified().await;
    }

    /// Bytes pass.
    pub(super) fn note_bytes(&self, from_server: bool) {
        let now = self.connections.now_ms();
        self.entry.active_at.store(now, Ordering::Relaxed);
        if from_server {
            self.entry.answered.store(true, Ordering::Relaxed);
        }
    }

    /// For how long no bytes have passed, in milliseconds.
    pub(super) fn idle_ms(&self) -> u64 {
        let active = self.entry.active_at.load(Ordering::Relaxed);
        self.connections.now_ms().saturating_sub(active)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut sources = self.connections.sources();
        if let Some(own) = sources.get_mut(&self.source) {
            own.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
            if own.is_empty() {
                sources.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn is_evicted(connection: &Connection) -> bool {
        let mut evicted = pin!(connection.evicted());
        let mut cx = Context::from_waker(Waker::noop());
        evicted.as_mut().poll(&mut cx).is_ready()
    }

    #[test]
    fn connections_take_a_quarter_of_the_descriptors_at_most() {
        assert_eq!(most_within(Some(1024)), 128);
        assert_eq!(most_within(Some(65_536)), MAX_CONNECTIONS);
        assert_eq!(most_within(Some(0)), 1);
        assert_eq!(most_within(None), MAX_CONNECTIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn source_with_its_share_loses_what_was_never_answered_and_then_what_is_idle() {
        let all = Connections::new(10, 2);
        let answered = all.enter(ONE).await.unwrap();
        answered.note_bytes(true);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let silent = all.enter(ONE).await.unwrap();
        let third = all.enter(ONE).await.unwrap();
        assert!(is_evicted(&silent) && !is_evicted(&answered));
        third.note_bytes(true);
        let _fourth = all.enter(ONE).await.unwrap();
        assert!(is_evicted(&answered) && !is_evicted(&third));
    }

    #[tokio::test]
    async fn source_with_most_makes_room_when_there_is_none() {
        let all = Connections::new(3, 10);
        let other = all.enter(TWO).await.unwrap();
        let oldest = all.enter(ONE).await.unwrap();
        let _newer = all.enter(ONE).await.unwrap();
        let mut waiting = pin!(all.enter(TWO));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(waiting.as_mut().poll(&mut cx), Poll::Pending));
        assert!(is_evicted(&oldest) && !is_evicted(&other));
        drop(oldest);
        assert!(waiting.await.is_some());
    }
}
