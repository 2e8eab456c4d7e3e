//! When a server was last heard, and what that means for the instances here.
//!
//! What is known outlives the daemon twice: in the shim, which holds the end of
//! the lease, and on disk, with the boot that its times are of. A daemon that
//! starts again goes on counting from there; a full disk makes it count from
//! earlier, never from later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use strata_cell::Lease;
use strata_transport::FollowedTerm;
use strata_types::Result;
use tokio::sync::Notify;

use super::lease::{Contact, deadline, heard_at, must_stop, patience};
use super::state::{Heard, Kept, ServerFacts};
use super::witness::Witnesses;

/// How many loads may wait for their beats. More are not sent: the server is
/// behind, and would only fall behind further.
const UNANSWERED: usize = 16;
/// The time of the last answer is written this often in a lease.
const WRITES_IN_A_LEASE: u32 = 10;

/// What a node knows of its servers.
pub(super) struct Liveness {
    kept: Kept,
    boot: String,
    /// The server runs in this very process.
    beside_server: bool,
    known: Mutex<Known>,
    /// A lease was granted, moved or waived.
    news: Notify,
    term: Arc<Term>,
}

/// The term of the server that was last followed.
#[derive(Default)]
struct Term(AtomicU64);

impl FollowedTerm for Term {
    fn followed_term(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

struct Known {
    facts: ServerFacts,
    /// The end of the lease that the shim held when the daemon started: it
    /// holds where the disk knows of none, because its file was damaged.
    inherited: Option<Duration>,
    /// When what the server has last answered was sent.
    heard_at: Duration,
    /// As it is on disk.
    written_at: Duration,
    /// The disk has other facts.
    unwritten: bool,
    /// The last answer was of the witnesses.
    by_witnesses: bool,
    /// When the last answer of a server came.
    server_heard_at: Duration,
    /// When each load that waits for its beat was sent.
    unanswered: VecDeque<Duration>,
}

/// What a server says when it takes a node in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) lease_ms: u32,
    /// There is one server and no other.
    pub(super) alone: bool,
    pub(super) records_promises: bool,
    pub(super) servers: Vec<String>,
    pub(super) term: u64,
}

/// Time since the machine started, also while it sleeps: the server's lease
/// does not sleep with it.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The boot that times of the boot clock are of.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

impl Liveness {
    /// What was known before the daemon started, and the lease that the shim
    /// holds. A server in the same process has started at the same moment, and
    /// counts from there.
    pub(super) fn open(kept: Kept, found: Lease, beside_server: bool) -> Self {
        let (mut facts, boot) = (kept.server(), boot_id());
        let heard_at = match beside_server {
            true => now(),
            false => last_heard(&facts, &boot, found),
        };
        // The shim gets it after the disk, and cannot be full.
        match found {
            Lease::Until(_) => facts.waived = false,
            Lease::Waived => facts.waived = facts.records_promises,
            Lease::Unset => {}
        }
        let term = Arc::new(Term(AtomicU64::new(facts.term)));
        let inherited = match found {
            Lease::Until(end) => Some(end),
            Lease::Waived | Lease::Unset => None,
        };
        let known = Known {
            facts,
            inherited,
            heard_at,
            written_at: heard_at,
            unwritten: false,
            by_witnesses: false,
            server_heard_at: Duration::ZERO,
            unanswered: VecDeque::new(),
        };
        Self {
            kept,
            boot,
            beside_server,
            known: Mutex::new(known),
            news: Notify::new(),
            term,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server took the node in.
    pub(super) fn welcomed(&self, greeting: Greeting, greeted_at: Duration) -> Result<()> {
        let mut known = self.known();
        known.unanswered.clear();
        known.inherited = None;
        let facts = ServerFacts {
            lease_ms: greeting.lease_ms,
            alone: greeting.alone,
            farewell: false,
            records_promises: greeting.records_promises,
            // Until this server says so, too.
            waived: known.facts.waived && greeting.records_promises,
            servers: greeting.servers,
            term: greeting.term,
            witnesses: known.facts.witnesses.clone(),
            heard: known.facts.heard.clone(),
        };
        self.term.0.store(facts.term, Ordering::Release);
        let learnt = self.learn(&mut known, facts);
        self.heard(&mut known, greeted_at);
        learnt
    }

    /// The term that calls of servers have to be of.
    pub(super) fn followed_term(&self) -> Arc<dyn FollowedTerm> {
        self.term.clone()
    }

    /// The server ends on purpose.
    pub(super) fn farewell(&self) -> Result<()> {
        let mut known = self.known();
        let facts = ServerFacts {
            farewell: true,
            ..known.facts.clone()
        };
        self.learn(&mut known, facts)
    }

    /// The server promises that nothing is started elsewhere, or does no more;
    /// and names those without which nothing can be.
    pub(super) fn promised(&self, waived: bool, witnesses: Option<Witnesses>) -> Result<()> {
        let mut known = self.known();
        if known.facts.waived && !waived {
            // The server moves nothing before this is acknowledged, and then
            // not before a whole lease has passed.
            tracing::info!("there are other nodes: the lease of this one has an end");
            self.heard(&mut known, now());
        }
        let facts = ServerFacts {
            waived,
            witnesses,
            ..known.facts.clone()
        };
        self.learn(&mut known, facts)
    }

    fn learn(&self, known: &mut Known, facts: ServerFacts) -> Result<()> {
        if known.facts == facts {
            return Ok(());
        }
        known.facts = facts;
        self.news.notify_one();
        self.write(known)
    }

    fn write(&self, known: &mut Known) -> Result<()> {
        let written = self.kept.write_server(&known.facts);
        known.unwritten = written.is_err();
        written
    }

    /// Whether the disk says the same as memory: after a restart the node knows
    /// of its lease what it knows now.
    pub(super) fn is_written(&self) -> bool {
        !self.known().unwritten
    }

    /// What was sent at this time was answered.
    fn heard(&self, known: &mut Known, sent: Duration) {
        known.by_witnesses = false;
        known.server_heard_at = now();
        known.heard_at = known.heard_at.max(sent);
        self.news.notify_one();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let old = known.heard_at.saturating_sub(known.written_at);
        if old < lease / WRITES_IN_A_LEASE && known.facts.heard.is_some() {
            return;
        }
        // One that cannot be written leaves an earlier time behind, by which
        // instances would be stopped sooner. And it is tried again as often.
        known.written_at = known.heard_at;
        known.facts.heard = Some(Heard {
            boot: self.boot.clone(),
            at_ms: u64::try_from(known.heard_at.as_millis()).unwrap_or(u64::MAX),
        });
        if let Err(error) = self.write(known) {
            tracing::debug!(%error, "when the server was last heard is not written down");
        }
    }

    /// All witnesses promised when they were asked at this time.
    pub(super) fn witnessed(&self, asked: Duration) {
        let mut known = self.known();
        if must_stop(&contact(&known, true), now()) {
            // Too late: it is being stopped, and waits for a server.
            return;
        }
        let heard = known.server_heard_at;
        if !known.by_witnesses {
            tracing::warn!("no server is heard; all peers promise to start nothing: going on");
        }
        self.heard(&mut known, asked);
        (known.by_witnesses, known.server_heard_at) = (true, heard);
    }

    /// Whether a server has answered just now: what others had may be assigned
    /// to this node.
    pub(super) fn hears_server(&self) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        now().saturating_sub(known.server_heard_at) < lease / 4
    }

    /// How long the witnesses are not needed. Once they are, they are asked
    /// more often: one of them may follow a server again before this node does.
    pub(super) fn until_witnesses(&self) -> Duration {
        const AT_LEAST: Duration = Duration::from_millis(100);
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let after = match known.by_witnesses {
            true => lease / 8,
            false => lease / 2,
        };
        let silence = now().saturating_sub(known.heard_at);
        after.saturating_sub(silence).max(AT_LEAST)
    }

    /// The witnesses, when they are to be asked.
    pub(super) fn witnesses_if_due(&self) -> Option<Witnesses> {
        if self.silence_is_short() {
            return None;
        }
        let known = self.known();
        let has_end = known.facts.lease_ms > 0 && !known.facts.waived;
        let is_open = has_end && !must_stop(&contact(&known, true), now());
        known.facts.witnesses.clone().filter(|_| is_open)
    }

    fn silence_is_short(&self) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let silence = now().saturating_sub(known.heard_at);
        silence
            < if known.by_witnesses {
                lease / 8
            } else {
                lease / 2
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
            let lease = Duration::from_millis(known.facts.lease_ms.into());
            let took = now().saturating_sub(sent);
            if took > lease / 4 {
                tracing::warn!(?took, ?lease, "a heartbeat was answered late");
            }
            self.heard(&mut known, sent);
        }
    }

    /// The host of the only server said, to a connection that was opened at
    /// this time, that no server runs there. One that starts later lets a whole
    /// lease pass before it moves anything: so this is as good as an answer.
    pub(super) fn refused(&self, tried_at: Duration) {
        let mut known = self.known();
        if known.facts.alone {
            let heard = known.server_heard_at;
            self.heard(&mut known, tried_at);
            known.server_heard_at = heard;
        }
    }

    /// How long an instance may run on without news.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.known().facts.lease_ms.into())
    }

    /// The servers that were named, and the term of the last one followed.
    pub(super) fn servers(&self) -> (Vec<String>, u64) {
        let known = self.known();
        (known.facts.servers.clone(), known.facts.term)
    }

    /// Whether another server may have taken over since the last was heard:
    /// then a lower term is no sign of an old leader.
    pub(super) fn is_long_silent(&self) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        now().saturating_sub(known.heard_at) > 2 * lease
    }

    /// Until when what was assigned may run here, whatever becomes of this
    /// process. Where the only server is part of it, nothing can be started
    /// elsewhere while it does not run.
    pub(super) fn deadline(&self, peers: bool) -> Lease {
        let known = self.known();
        let inherited = known.inherited.filter(|_| known.facts.lease_ms == 0);
        match (deadline(&contact(&known, peers)), inherited) {
            (Lease::Until(_), _) if self.beside_server && known.facts.alone => Lease::Waived,
            (_, Some(end)) => Lease::Until(end),
            (lease, None) => lease,
        }
    }

    /// Whether the instances here must end now; then `stop` is called, with the
    /// lease. A server that takes the node in at the same moment does so before
    /// or after, so what it says from then on holds.
    pub(super) fn stop_if_due(&self, peers: bool, stop: impl FnOnce(Duration)) -> bool {
        let known = self.known();
        let contact = contact(&known, peers);
        let due = must_stop(&contact, now());
        if due {
            stop(contact.lease);
        }
        due
    }

    /// Has the fence look again.
    pub(super) fn wake(&self) {
        self.news.notify_one();
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

/// What the lease is judged by.
fn contact(known: &Known, peers: bool) -> Contact {
    Contact {
        lease: Duration::from_millis(known.facts.lease_ms.into()),
        heard_at: known.heard_at,
        waived: known.facts.is_waived(peers),
    }
}

/// When a server was last heard, as far as the disk and the shim know.
fn last_heard(facts: &ServerFacts, boot: &str, found: Lease) -> Duration {
    let lease = Duration::from_millis(facts.lease_ms.into());
    let of_shim = match found {
        Lease::Until(end) => heard_at(end, lease),
        Lease::Unset | Lease::Waived => Duration::ZERO,
    };
    let of_disk = match &facts.heard {
        // Of an earlier release, which did not write it down.
        None if of_shim.is_zero() => now(),
        Some(heard) if heard.boot == boot => Duration::from_millis(heard.at_ms),
        // The machine has started since: whatever ran here does no more.
        _ => Duration::ZERO,
    };
    of_disk.max(of_shim).min(now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn liveness(folder: &std::path::Path) -> Liveness {
        Liveness::open(Kept::open(folder.to_owned()).unwrap(), Lease::Unset, false)
    }

    fn greeting(lease_ms: u32) -> Greeting {
        Greeting {
            lease_ms,
            records_promises: true,
            ..Greeting::default()
        }
    }

    /// Until a lease of a millisecond is over.
    fn wait(liveness: &Liveness) {
        let heard_at = liveness.known().heard_at;
        while liveness.now() < heard_at + Duration::from_millis(2) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn lease_of_the_shim_holds_where_the_disk_knows_of_none() {
        let folder = tempfile::tempdir().unwrap();
        let kept = || Kept::open(folder.path().to_owned()).unwrap();
        let end = now() + Duration::from_secs(60);
        let found = Liveness::open(kept(), Lease::Until(end), false);
        assert_eq!(found.deadline(true), Lease::Until(end));
        found.welcomed(greeting(10_000), now()).unwrap();
        assert_ne!(found.deadline(true), Lease::Until(end));
        assert_eq!(liveness(folder.path()).lease(), Duration::from_secs(10));
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
            let now = liveness.now();
            liveness.welcomed(greeting(3000), now).unwrap();
        };
        // Without a lease there would be nothing to look at for seconds.
        let both = async { tokio::join!(liveness.look_again(), told) };
        let seldom = liveness.next_look();
        assert!(tokio::time::timeout(seldom / 2, both).await.is_ok());
        assert!(liveness.next_look() < Duration::from_secs(3));
    }

    #[test]
    fn restarted_daemon_goes_on_counting_its_lease() {
        let folder = tempfile::tempdir().unwrap();
        let first = liveness(folder.path());
        let heard = first.now();
        first.welcomed(greeting(60_000), heard).unwrap();
        let again = liveness(folder.path());
        let counted = heard.saturating_sub(again.known().heard_at);
        assert!(counted < Duration::from_millis(1), "{counted:?}");
        // The shim may know better than the disk.
        let later = heard - Duration::from_millis(3);
        let end = later + patience(again.lease()) + super::super::lease::grace(again.lease());
        let kept = Kept::open(folder.path().to_owned()).unwrap();
        let facts = ServerFacts {
            heard: Some(Heard {
                boot: boot_id(),
                at_ms: 1,
            }),
            ..kept.server()
        };
        kept.write_server(&facts).unwrap();
        let third = Liveness::open(kept.clone(), Lease::Until(end), false);
        assert_eq!(third.known().heard_at, later);
        // Another boot: nothing of it runs, and nothing is left of the lease.
        let facts = ServerFacts {
            heard: Some(Heard {
                boot: "another".into(),
                at_ms: u64::MAX,
            }),
            ..facts
        };
        kept.write_server(&facts).unwrap();
        assert!(Liveness::open(kept, Lease::Unset, false).stop_if_due(true, drop));
    }

    #[test]
    fn only_a_recorded_promise_frees_from_the_lease() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        let long_ago = liveness.now() - Duration::from_secs(1);
        liveness.welcomed(greeting(1), long_ago).unwrap();
        wait(&liveness);
        assert!(liveness.stop_if_due(false, drop), "no peers is no promise");
        liveness.farewell().unwrap();
        assert!(liveness.stop_if_due(true, drop), "nor is a farewell");
        liveness.promised(true, None).unwrap();
        assert!(!liveness.stop_if_due(true, drop));
        assert_eq!(liveness.deadline(true), Lease::Waived);
        let again = self::liveness(folder.path());
        assert!(!again.stop_if_due(true, drop), "it outlives the daemon");
        again.promised(false, None).unwrap();
        // It counts from then on.
        while !again.stop_if_due(true, drop) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn node_beside_the_only_server_needs_no_lease_while_neither_runs() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path().to_owned()).unwrap();
        let beside = Liveness::open(kept, Lease::Unset, true);
        let long_ago = beside.now() - Duration::from_secs(1);
        for (alone, lease) in [(true, true), (false, false)] {
            let several = Greeting {
                alone,
                ..greeting(60_000)
            };
            beside.welcomed(several, long_ago).unwrap();
            assert_eq!(beside.deadline(true) == Lease::Waived, lease);
        }
    }

    #[test]
    fn server_of_an_earlier_release_is_taken_at_its_word() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        let old = Greeting {
            records_promises: false,
            ..greeting(1)
        };
        let long_ago = liveness.now() - Duration::from_secs(1);
        liveness.welcomed(old, long_ago).unwrap();
        wait(&liveness);
        assert!(!liveness.stop_if_due(false, drop), "there are no peers");
        assert!(liveness.stop_if_due(true, drop));
        liveness.farewell().unwrap();
        assert!(!liveness.stop_if_due(true, drop), "it said farewell");
    }
}
