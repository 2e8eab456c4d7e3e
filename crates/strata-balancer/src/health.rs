//! What is known of each server: whether it accepted when it was tried last,
//! and until when it is suspected.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::choice::{self, ServerHealth};

/// A suspicion lasts at most 16 times as long as the first.
const MAX_DOUBLINGS: u32 = 4;

#[derive(Debug)]
pub(super) struct Health {
    suspicion: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    turn: usize,
    servers: HashMap<SocketAddr, Record>,
}

/// A server that nothing is known of is a good one.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    down: bool,
    suspect_until: Option<Instant>,
    /// How often in a row it has not answered.
    silences: u32,
}

impl Record {
    fn server_health(&self, now: Instant) -> ServerHealth {
        if self.down {
            return ServerHealth::Down;
        }
        match self.suspect_until {
            Some(until) if now < until => ServerHealth::Suspect,
            _ => ServerHealth::Good,
        }
    }
}

impl Health {
    pub(super) fn new(suspicion: Duration) -> Self {
        Self {
            suspicion,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers to try for the next connection.
    pub(super) fn order(&self, servers: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut state = self.state();
        state.turn = state.turn.wrapping_add(1);
        let now = Instant::now();
        let server_health = |server: &SocketAddr| {
            let record = state.servers.get(server).copied().unwrap_or_default();
            (*server, record.server_health(now))
        };
        let known: Vec<_> = servers.iter().map(server_health).collect();
        choice::order(&known, state.turn)
    }

    pub(super) fn keep(&self, servers: &[SocketAddr]) {
        let mut state = self.state();
        state.servers.retain(|server, _| servers.contains(server));
        for server in servers {
            state.servers.entry(*server).or_default();
        }
    }

    /// Whether it accepted just now.
    pub(super) fn note_reachable(&self, server: SocketAddr, reachable: bool) {
        self.change(server, |record, _| {
            if record.down == reachable {
                if reachable {
                    tracing::info!(%server, "server accepts connections again");
                } else {
                    tracing::warn!(%server, "server accepts no connections");
                }
            }
            record.down = !reachable;
        });
    }

    /// It sent something to a client.
    pub(super) fn note_answer(&self, server: SocketAddr) {
        self.change(server, |record, _| {
            record.silences = 0;
            record.suspect_until = None;
        });
    }

    /// It sent nothing to a client that waits, or closed without an answer.
    pub(super) fn note_silence(&self, server: SocketAddr) {
        self.change(server, |record, suspicion| {
            let now = Instant::now();
            if record.server_health(now) == ServerHealth::Suspect {
                // One silence, noticed by many clients.
                return;
            }
            let longer = 1 << record.silences.min(MAX_DOUBLINGS);
            record.suspect_until = Some(now + suspicion * longer);
            record.silences += 1;
            tracing::warn!(%server, "server accepts connections and does not answer");
        });
    }

    fn change(&self, server: SocketAddr, change: impl FnOnce(&mut Record, Duration)) {
        // Of one that is no longer in the list nothing is kept.
        if let Some(record) = self.state().servers.get_mut(&server) {
            change(record, self.suspicion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn suspicion_passes_and_grows_with_each_silence_in_a_row() {
        let health = Health::new(Duration::from_secs(5));
        let [a, b] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let last = || *health.order(&[a, b]).last().unwrap();
        let suspected = || (0..4).all(|_| last() == a);
        health.keep(&[a, b]);
        for seconds in [5, 10, 20] {
            health.note_silence(a);
            health.note_silence(a);
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(suspected(), "after {seconds} s");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!suspected(), "after {seconds} s");
        }
        health.note_answer(a);
        health.note_silence(a);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!suspected());
    }

    #[test]
    fn unreachable_server_comes_last_until_it_accepts_a_connection() {
        let health = Health::new(Duration::from_secs(5));
        let [a, b] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        health.keep(&[a, b]);
        health.note_reachable(a, false);
        assert!((0..4).all(|_| health.order(&[a, b]) == [b, a]));
        health.note_reachable(a, true);
        assert!((0..4).any(|_| health.order(&[a, b]) == [a, b]));
    }
}
