//! When a server was last heard, and what that means for the instances here.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use strata_types::Result;
use tokio::sync::Notify;

use super::lease::{Contact, Tries, must_stop, patience};
use super::state::{Kept, ServerFacts};

/// How many loads may wait for their beats. More are not sent: the server is
/// behind, and would only fall behind further.
const UNANSWERED: usize = 16;

/// What a node knows of its servers.
pub(super) struct Liveness {
    kept: Kept,
    known: Mutex<Known>,
    /// A lease was told, or another one: whoever waits has waited too long.
    news: Notify,
}

struct Known {
    facts: ServerFacts,
    /// When what the server has last answered was sent.
    heard_at: Duration,
    /// When each load that waits for its beat was sent.
    unanswered: VecDeque<Duration>,
    tries: Tries,
}

/// Time since the machine started, also while it sleeps: the server's lease
/// does not sleep with it.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

impl Liveness {
    /// What was known before the daemon started. It gets a lease's time to
    /// find a server.
    pub(super) fn open(kept: Kept) -> Self {
        let known = Known {
            facts: kept.server(),
            heard_at: now(),
            unanswered: VecDeque::new(),
            tries: Tries::None,
        };
        Self {
            kept,
            known: Mutex::new(known),
            news: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server took the node in.
    pub(super) fn welcomed(&self, lease_ms: u32, alone: bool, greeted_at: Duration) -> Result<()> {
        let facts = ServerFacts {
            lease_ms,
            alone,
            farewell: false,
        };
        let mut known = self.known();
        known.heard_at = known.heard_at.max(greeted_at);
        known.tries = Tries::None;
        known.unanswered.clear();
        self.learn(&mut known, facts)
    }

    /// The server ends on purpose.
    pub(super) fn farewell(&self) -> Result<()> {
        let mut known = self.known();
        let facts = ServerFacts {
            farewell: true,
            ..known.facts
        };
        self.learn(&mut known, facts)
    }

    fn learn(&self, known: &mut Known, facts: ServerFacts) -> Result<()> {
        let changed = known.facts != facts;
        known.facts = facts;
        if changed {
            self.news.notify_one();
        }
        match changed {
            true => self.kept.write_server(facts),
            false => Ok(()),
        }
    }

    /// The time, for [`Liveness::welcomed`].
    pub(super) fn now(&self) -> Duration {
        now()
    }

    /// Whether one more load may be sent; then it counts as sent.
    pub(super) fn sends_load(&self) -> bool {
        let mut known = self.known();
        let may = known.unanswered.len() < UNANSWERED;
        if may {
            known.unanswered.push_back(now());
        }
        may
    }

    /// The server answered a load. What counts is when that was sent: the
    /// server's lease began no earlier.
    pub(super) fn beat(&self) {
        let mut known = self.known();
        if let Some(sent) = known.unanswered.pop_front() {
            known.heard_at = known.heard_at.max(sent);
        }
    }

    /// A try to reach a server failed.
    pub(super) fn tried(&self, refused: bool) {
        let mut known = self.known();
        known.tries = known.tries.and(refused);
    }

    /// How long an instance may run on without news.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.known().facts.lease_ms.into())
    }

    /// Whether the instances here must end now; then `stop` is called,
    /// with the lease. A server
    /// that takes the node in at the same moment does so before or after, so
    /// what it says from then on holds.
    pub(super) fn stop_if_due(&self, peers: bool, stop: impl FnOnce(Duration)) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let due = must_stop(&Contact {
            lease,
            silence: now().saturating_sub(known.heard_at),
            peers,
            farewell: known.facts.farewell,
            alone: known.facts.alone,
            tries: known.tries,
        });
        if due {
            stop(lease);
        }
        due
    }

    /// Waits until it is worth asking again.
    pub(super) async fn look_again(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.next_look()) => {}
            () = self.news.notified() => {}
        }
    }

    fn next_look(&self) -> Duration {
        const OFTEN: Duration = Duration::from_millis(200);
        const SELDOM: Duration = Duration::from_secs(5);
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        if lease.is_zero() {
            return SELDOM;
        }
        let silence = now().saturating_sub(known.heard_at);
        patience(lease).saturating_sub(silence).clamp(OFTEN, SELDOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn liveness(folder: &std::path::Path) -> Liveness {
        Liveness::open(Kept::open(folder.to_owned()).unwrap())
    }

    #[test]
    fn a_server_that_is_behind_is_not_sent_more_and_does_not_count_as_heard() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        let sent = (0..100).filter(|_| liveness.sends_load()).count();
        assert_eq!(sent, UNANSWERED);
        let before = liveness.known().heard_at;
        let first = *liveness.known().unanswered.front().unwrap();
        liveness.beat();
        assert_eq!(liveness.known().heard_at, before.max(first));
        // More beats than loads are noise.
        (0..100).for_each(|_| liveness.beat());
        assert!(liveness.sends_load());
    }

    #[tokio::test]
    async fn a_lease_that_is_told_is_watched_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        let told = async {
            tokio::task::yield_now().await;
            liveness.welcomed(3000, true, liveness.now()).unwrap();
        };
        // Without a lease there would be nothing to look at for seconds.
        let both = async { tokio::join!(liveness.look_again(), told) };
        let seldom = liveness.next_look();
        assert!(tokio::time::timeout(seldom / 2, both).await.is_ok());
        assert!(liveness.next_look() < Duration::from_secs(3));
    }

    #[test]
    fn what_the_server_said_outlives_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let first = liveness(folder.path());
        let now = first.now();
        first.welcomed(1, false, now).unwrap();
        assert!(!first.stop_if_due(false, drop));
        first.farewell().unwrap();
        let again = liveness(folder.path());
        assert_eq!(again.lease(), Duration::from_millis(1));
        assert!(!again.stop_if_due(true, drop), "it said farewell");
        let now = again.now();
        again.welcomed(1, false, now).unwrap();
        while !again.stop_if_due(true, drop) {
            std::thread::yield_now();
        }
    }
}
