//! The network: who reaches whom, in each direction, and how long it takes.
//!
//! What is sent on a connection arrives in order, once. While the way is cut it
//! waits, as TCP sends again what was lost; who waits too long gives up by
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::chance::Chance;
use crate::env::Env;
use crate::process::Process;

/// Messages that are on their way on one connection.
const CAPACITY: usize = 64;

/// An end of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Store,
    Server(usize),
    Node(usize),
    Client,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::Server(at) => write!(f, "s{}", at + 1),
            Self::Node(at) => write!(f, "n{}", at + 1),
            Self::Client => f.write_str("client"),
        }
    }
}

type Way = (Place, Place);

#[derive(Default)]
struct State {
    /// How often each way is cut.
    cut: BTreeMap<Way, usize>,
    /// Hosts that are off.
    off: BTreeSet<Place>,
    connections: BTreeMap<u64, (Way, CancellationToken)>,
    opened: u64,
}

/// All ways.
pub(crate) struct Network {
    chance: Chance,
    process: Arc<Process>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Network {
    pub(crate) fn new(env: &Arc<Env>) -> Arc<Self> {
        Arc::new(Self {
            chance: Chance::of(env.seed, "network"),
            process: env.outside(),
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cut(&self, from: Place, to: Place) {
        *self.state().cut.entry((from, to)).or_default() += 1;
    }

    pub(crate) fn mend(&self, from: Place, to: Place) {
        {
            let mut state = self.state();
            let left = state.cut.remove(&(from, to)).unwrap_or_default();
            if left > 1 {
                state.cut.insert((from, to), left - 1);
            }
        }
        self.changed.send_replace(());
    }

    /// A host goes off or comes back.
    pub(crate) fn set_off(&self, place: Place, off: bool) {
        let mut state = self.state();
        match off {
            true => state.off.insert(place),
            false => state.off.remove(&place),
        };
        drop(state);
        self.changed.send_replace(());
    }

    pub(crate) fn is_open(&self, from: Place, to: Place) -> bool {
        let state = self.state();
        let off = state.off.contains(&from) || state.off.contains(&to);
        !off && !state.cut.contains_key(&(from, to))
    }

    pub(crate) fn latency(&self) -> Duration {
        match self.chance.below(100) {
            0 => self.chance.millis(5..=200),
            _ => self.chance.millis(0..=3),
        }
    }

    async fn until_open(&self, from: Place, to: Place) {
        let mut changed = self.changed.subscribe();
        while !self.is_open(from, to) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// The time in which something gets from one place to another.
    pub(crate) async fn cross(&self, from: Place, to: Place) {
        tokio::time::sleep(self.latency()).await;
        self.until_open(from, to).await;
    }

    /// A connection, which ends with this token.
    pub(crate) fn connection(&self, way: Way) -> CancellationToken {
        let broken = CancellationToken::new();
        let mut state = self.state();
        state.opened += 1;
        let number = state.opened;
        if number.is_multiple_of(64) {
            state
                .connections
                .retain(|_, (_, known)| !known.is_cancelled());
        }
        state.connections.insert(number, (way, broken.clone()));
        broken
    }

    /// Breaks every connection of a place.
    pub(crate) fn reset(&self, place: Place) {
        let broken: Vec<_> = {
            let mut state = self.state();
            let of = |way: &Way| way.0 == place || way.1 == place;
            let found = state.connections.iter().filter(|(_, (way, _))| of(way));
            let found: Vec<u64> = found.map(|(number, _)| *number).collect();
            let taken = found
                .iter()
                .filter_map(|number| state.connections.remove(number));
            taken.map(|(_, broken)| broken).collect()
        };
        broken.iter().for_each(CancellationToken::cancel);
    }

    /// Carries what comes from `input` in one direction of a connection.
    pub(crate) fn carry<T: Send + 'static>(
        self: &Arc<Self>,
        (from, to): Way,
        mut input: BoxStream<'static, T>,
        broken: CancellationToken,
    ) -> mpsc::Receiver<T> {
        let (sender, mut under_way) = mpsc::channel::<(Instant, T)>(CAPACITY);
        let (arrives, arrived) = mpsc::channel(1);
        let (net, gone) = (self.clone(), arrives.clone());
        let cut_short = broken.clone();
        self.process.spawn("connection-out", async move {
            let mut last = Instant::now();
            loop {
                let item = tokio::select! {
                    biased;
                    () = cut_short.cancelled() => break,
                    // Word of it has to come back first.
                    () = closed(&gone, &net, to, from) => break,
                    item = input.next() => item,
                };
                let Some(item) = item else { break };
                last = last.max(Instant::now() + net.latency());
                if sender.send((last, item)).await.is_err() {
                    break;
                }
            }
        });
        let net = self.clone();
        self.process.spawn("connection-in", async move {
            loop {
                let next = tokio::select! {
                    biased;
                    () = broken.cancelled() => return,
                    next = under_way.recv() => next,
                };
                let Some((due, item)) = next else { break };
                let on_its_way = async {
                    tokio::time::sleep_until(due).await;
                    net.until_open(from, to).await;
                };
                tokio::select! {
                    biased;
                    () = broken.cancelled() => return,
                    () = on_its_way => {}
                }
                if arrives.send(item).await.is_err() {
                    return;
                }
            }
            net.cross(from, to).await;
        });
        arrived
    }
}

async fn closed<T>(gone: &mpsc::Sender<T>, net: &Network, from: Place, to: Place) {
    gone.closed().await;
    net.cross(from, to).await;
}
