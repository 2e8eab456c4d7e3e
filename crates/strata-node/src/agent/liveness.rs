//! When a server last answered, and what that means for the instances here.
//!
//! What is known outlives the daemon twice: in the shim, which holds the end of
//! the lease, and on disk, with the boot that its times are of. A daemon that
//! starts again goes on counting from there; a full disk makes it count from
//! earlier, never from later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_cell::Lease;
use strata_transport::FollowedTerm;
use strata_types::Result;
use tokio::sync::Notify;

use super::boot::SharedClock;
use super::lease::{ServerContact, deadline, heard_at, max_wait, must_stop};
use super::state::{AssignmentStore, BootTimestamp, ServerFacts};
use super::witness::Witnesses;

/// How many loads may wait for their beats. More are not sent: the server is
/// behind, and would only fall behind further.
const MAX_UNANSWERED_LOADS: usize = 16;
/// The time of the last answer is written this often in a lease.
const WRITES_IN_A_LEASE: u32 = 10;

/// What a node knows of its servers.
pub(super) struct Liveness {
    store: AssignmentStore,
    clock: SharedClock,
    boot: String,
    known: Mutex<Known>,
    /// A lease was granted, moved or waived.
    news: Notify,
    term: Arc<LeaderTerm>,
}

/// The term of the server that was last followed.
#[derive(Default)]
struct LeaderTerm(AtomicU64);

impl FollowedTerm for LeaderTerm {
    fn followed_term(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

struct Known {
    facts: ServerFacts,
    /// The end of the lease that the shim held when the daemon started: it
    /// holds where the disk knows of none, because its file was damaged.
    inherited: Option<Duration>,
    /// When what the server, or all witnesses, have last answered was sent.
    heard_at: Duration,
    /// The same of a server alone: witnesses extend the lease, but know nothing
    /// of who leads.
    answered_at: Duration,
    /// As it is on disk.
    written_at: Duration,
    /// The disk has other facts.
    unwritten: bool,
    /// The last answer was of the witnesses.
    by_witnesses: bool,
    /// A server of another control plane waits for the end of the lease, which
    /// is extended no more.
    ends: bool,
    /// When the last answer of a server came.
    server_heard_at: Duration,
    /// When the first one came after which no silence was as long as half of
    /// the lease.
    server_heard_since: Duration,
    /// When each load that waits for its beat was sent.
    unanswered: VecDeque<Duration>,
}

/// What a server sends when it accepts a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WelcomeInfo {
    pub(super) lease_ms: u32,
    /// There is one server and no other.
    pub(super) alone: bool,
    pub(super) records_promises: bool,
    pub(super) servers: Vec<String>,
    pub(super) term: u64,
    /// Where it was reached.
    pub(super) address: String,
    /// It is of another control plane than the one that was followed.
    pub(super) is_another: bool,
}

impl Liveness {
    /// What was known before the daemon started, and the lease that the shim
    /// holds. The only server, if it is in the same process, has started at the
    /// same moment, and counts from there. Of several, another one may lead.
    pub(super) fn open(
        store: AssignmentStore,
        clock: SharedClock,
        found: Lease,
        beside_server: bool,
    ) -> Self {
        let (mut facts, boot) = (store.server(), clock.boot_id());
        // Another boot: what was promised was for what ran then.
        facts.waived &= facts.is_of_boot(&boot);
        let heard_at = match beside_server && facts.alone {
            true => clock.now(),
            false => last_heard(&facts, &boot, found, clock.now()),
        };
        let answered_at = last_answered(&facts, &boot, heard_at);
        // The shim gets it after the disk, and cannot be full.
        match found {
            Lease::Until(_) => facts.waived = false,
            Lease::Waived => facts.waived = facts.records_promises,
            Lease::Unset => {}
        }
        let term = Arc::new(LeaderTerm(AtomicU64::new(facts.term)));
        let inherited = match found {
            Lease::Until(end) => Some(end),
            Lease::Waived | Lease::Unset => None,
        };
        let known = Known {
            facts,
            inherited,
            heard_at,
            answered_at,
            written_at: heard_at,
            unwritten: false,
            by_witnesses: false,
            ends: false,
            server_heard_at: Duration::ZERO,
            server_heard_since: Duration::ZERO,
            unanswered: VecDeque::new(),
        };
        Self {
            store,
            clock,
            boot,
            known: Mutex::new(known),
            news: Notify::new(),
            term,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server took the node in.
    pub(super) fn welcomed(&self, greeting: WelcomeInfo, greeted_at: Duration) -> Result<()> {
        let mut known = self.known();
        known.unanswered.clear();
        known.inherited = None;
        known.ends = false;
        let facts = ServerFacts {
            lease_ms: greeting.lease_ms,
            alone: greeting.alone,
            farewell: false,
            records_promises: greeting.records_promises,
            // Until this server confirms it, too; what another control plane
            // promised is no promise of this one.
            waived: known.facts.waived && greeting.records_promises && !greeting.is_another,
            servers: greeting.servers,
            term: greeting.term,
            followed: greeting.address,
            witnesses: known.facts.witnesses.clone(),
            heard: known.facts.heard.clone(),
            answered: known.facts.answered.clone(),
        };
        self.term.0.store(facts.term, Ordering::Release);
        // Which is no return where none was ever followed.
        let first = known.facts.lease_ms == 0;
        let learnt = self.learn(&mut known, facts);
        self.answered(&mut known, greeted_at, first);
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
            tracing::info!("other nodes exist: the lease of this node can expire");
            self.answered(&mut known, self.now(), false);
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
        let written = self.store.write_server(&known.facts);
        known.unwritten = written.is_err();
        written
    }

    /// Whether the disk holds the same as memory: after a restart the node
    /// knows of its lease what it knows now.
    pub(super) fn is_written(&self) -> bool {
        !self.known().unwritten
    }

    /// A server answered what was sent at this time; `first` where none ever was
    /// followed before.
    fn answered(&self, known: &mut Known, sent: Duration, first: bool) {
        known.answered_at = known.answered_at.max(sent);
        self.heard(known, sent);
        note_answer(known, first, self.now());
    }

    /// What was sent at this time was answered, by a server or in its place.
    fn heard(&self, known: &mut Known, sent: Duration) {
        known.by_witnesses = false;
        known.heard_at = known.heard_at.max(sent);
        self.news.notify_one();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let old = known.heard_at.saturating_sub(known.written_at);
        let answered = known.facts.answered.as_ref();
        let is_noted = answered.is_some_and(|answered| {
            let at = Duration::from_millis(answered.at_ms);
            let unnoted = known.answered_at.saturating_sub(at);
            answered.boot == self.boot && unnoted < lease / WRITES_IN_A_LEASE
        });
        if old < lease / WRITES_IN_A_LEASE && known.facts.heard.is_some() && is_noted {
            return;
        }
        // One that cannot be written leaves an earlier time behind, by which
        // instances would be stopped sooner. And it is tried again as often.
        known.written_at = known.heard_at;
        known.facts.heard = Some(self.stamp(known.heard_at));
        known.facts.answered = Some(self.stamp(known.answered_at));
        if let Err(error) = self.write(known) {
            tracing::debug!(%error, "time of the last heartbeat not saved");
        }
    }

    fn stamp(&self, at: Duration) -> BootTimestamp {
        BootTimestamp {
            boot: self.boot.clone(),
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// All witnesses promised when they were queried at this time.
    pub(super) fn witnessed(&self, asked: Duration) {
        let mut known = self.known();
        if known.ends || must_stop(&contact(&known, true), self.now()) {
            // Too late: it is being stopped, and waits for a server.
            return;
        }
        if !known.by_witnesses {
            tracing::warn!(
                "no heartbeat from a server; all peers promise to start nothing: instances keep running"
            );
        }
        self.heard(&mut known, asked);
        known.by_witnesses = true;
    }

    /// Whether a server answers, and has for a whole lease without a gap. Not
    /// before: when an outage ends, one node is the first to follow the server
    /// again, and the others need the promises of all until they do, too.
    pub(super) fn hears_server(&self) -> bool {
        let known = self.known();
        let (lease, now) = (known.lease(), self.now());
        now.saturating_sub(known.server_heard_at) < lease / 4
            && now.saturating_sub(known.server_heard_since) >= lease
    }

    /// How long a server may take for the next step of a connection on which it
    /// has not accepted this node: no longer than a lease, while that holds.
    pub(super) fn welcome_timeout(&self, longest: Duration) -> Duration {
        self.within_lease(1, longest)
    }

    /// How long a connection to a server may take. Where the server is not
    /// there, the kernel doubles its own pauses between tries: several short
    /// tries find one that comes back sooner than one that is long.
    pub(super) fn connect_timeout(&self, longest: Duration) -> Duration {
        self.within_lease(4, longest)
    }

    /// This part of the lease while it holds. Once it has ended nothing is in a
    /// hurry any more, and a server that is slow has to be reached at all.
    fn within_lease(&self, part: u32, longest: Duration) -> Duration {
        let known = self.known();
        let lease = known.lease();
        let is_over = self.now().saturating_sub(known.heard_at) > lease;
        match lease.is_zero() || is_over {
            true => longest,
            false => longest.min(lease / part),
        }
    }

    /// How long a server that is followed may be silent. A connection may be
    /// dead without an error: TCP sends again what was lost, after pauses that
    /// double, and so finds a server that is back only when the next is over.
    pub(super) fn silence_timeout(&self, longest: Duration) -> Duration {
        match self.lease() {
            Duration::ZERO => longest,
            lease => lease / 2,
        }
    }

    /// How long the witnesses are not needed. Once they are, they are queried
    /// more often: one of them may follow a server again before this node does.
    pub(super) fn until_witnesses(&self) -> Duration {
        const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(100);
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let after = match known.by_witnesses {
            true => lease / 8,
            false => lease / 2,
        };
        let silence = self.now().saturating_sub(known.heard_at);
        after.saturating_sub(silence).max(MIN_LOOK_INTERVAL)
    }

    /// The witnesses, when they are to be queried.
    pub(super) fn witnesses_if_due(&self) -> Option<Witnesses> {
        if self.silence_is_short() {
            return None;
        }
        let known = self.known();
        let has_end = known.facts.lease_ms > 0 && !known.facts.waived;
        let is_open = has_end && !known.ends && !must_stop(&contact(&known, true), self.now());
        known.facts.witnesses.clone().filter(|_| is_open)
    }

    fn silence_is_short(&self) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        let silence = self.now().saturating_sub(known.heard_at);
        silence
            < if known.by_witnesses {
                lease / 8
            } else {
                lease / 2
            }
    }

    /// The time, for [`Liveness::welcomed`].
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Whether one more load may be sent; then it counts as sent.
    pub(super) fn sends_load(&self) -> bool {
        let mut known = self.known();
        let may = known.unanswered.len() < MAX_UNANSWERED_LOADS;
        if may {
            known.unanswered.push_back(self.now());
        }
        may
    }

    /// The server answered a load. What counts is when that was sent: the
    /// server's lease began no earlier.
    pub(super) fn beat(&self) {
        let mut known = self.known();
        if let Some(sent) = known.unanswered.pop_front() {
            let lease = Duration::from_millis(known.facts.lease_ms.into());
            let took = self.now().saturating_sub(sent);
            if took > lease / 4 {
                tracing::warn!(?took, ?lease, "heartbeat answered late");
            }
            self.answered(&mut known, sent, false);
        }
    }

    /// The host at one of the known addresses reported, to a connection that was
    /// opened at this time, that no server runs there. If that is the only
    /// server, one that starts later lets a whole lease pass before it moves
    /// anything: so this is as good as an answer. At any other address it says
    /// nothing: the server may run where it was followed.
    pub(super) fn refused(&self, address: &str, known_addresses: usize, tried_at: Duration) {
        let mut known = self.known();
        let is_only = known_addresses == 1 && known.facts.followed == address;
        if known.facts.alone && is_only && !known.ends {
            self.heard(&mut known, tried_at);
        }
    }

    /// Until when what was assigned may run by a lease of the control plane that
    /// was followed, which may have servers that this node does not reach. None
    /// if it promised to start nothing elsewhere, and if another one answers
    /// where its only server was: then that does not run.
    pub(super) fn leased_elsewhere_until(
        &self,
        address: &str,
        known_addresses: usize,
    ) -> Option<Duration> {
        let known = self.known();
        let is_replaced =
            known.facts.alone && known_addresses == 1 && known.facts.followed == address;
        match deadline(&contact(&known, true)) {
            Lease::Until(end) if !is_replaced => Some(end),
            Lease::Until(_) | Lease::Waived | Lease::Unset => None,
        }
    }

    /// The lease goes on to its end, and is extended by a server of the same
    /// control plane alone.
    pub(super) fn let_lease_end(&self) {
        self.known().ends = true;
    }

    /// How long an instance may run on without an answered heartbeat.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.known().facts.lease_ms.into())
    }

    /// The servers that were named, and the term of the last one followed.
    pub(super) fn servers(&self) -> (Vec<String>, u64) {
        let known = self.known();
        (known.facts.servers.clone(), known.facts.term)
    }

    /// Whether no server has answered for so long that the one that was followed
    /// leads no more: then a lower term is no sign of an old leader, but of
    /// another store. Promises of witnesses are no answer: they go on for as
    /// long as none is followed.
    pub(super) fn is_long_silent(&self) -> bool {
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        self.now().saturating_sub(known.answered_at) > 2 * lease
    }

    /// Until when what was assigned may run here, whatever becomes of this
    /// process. Without an end only by a promise that a server has recorded, also
    /// where the only server is part of this process: it may be started again in
    /// another, and knows nothing of what was assumed here.
    pub(super) fn deadline(&self, peers: bool) -> Lease {
        let known = self.known();
        let inherited = known.inherited.filter(|_| known.facts.lease_ms == 0);
        match (deadline(&contact(&known, peers)), inherited) {
            (_, Some(end)) => Lease::Until(end),
            (lease, None) => lease,
        }
    }

    /// Whether the instances here must end now; then `stop` is called, with the
    /// lease. A server that accepts the node at the same moment does so before
    /// or after, so what it sends from then on holds.
    pub(super) fn stop_if_due(&self, peers: bool, stop: impl FnOnce(Duration)) -> bool {
        let known = self.known();
        let contact = contact(&known, peers);
        let due = must_stop(&contact, self.now());
        if due {
            stop(contact.lease);
        }
        due
    }

    /// Has the fence look again.
    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits until another query is worthwhile.
    pub(super) async fn look_again(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.next_look()) => {}
            () = self.news.notified() => {}
        }
    }

    fn next_look(&self) -> Duration {
        const CHECK_INTERVAL: Duration = Duration::from_millis(200);
        const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
        let known = self.known();
        let lease = Duration::from_millis(known.facts.lease_ms.into());
        if lease.is_zero() {
            return IDLE_CHECK_INTERVAL;
        }
        let silence = self.now().saturating_sub(known.heard_at);
        max_wait(lease)
            .saturating_sub(silence)
            .clamp(CHECK_INTERVAL, IDLE_CHECK_INTERVAL)
    }
}

impl Known {
    fn lease(&self) -> Duration {
        Duration::from_millis(self.facts.lease_ms.into())
    }
}

/// A server has answered; `first` where none ever was followed before.
fn note_answer(known: &mut Known, first: bool, now: Duration) {
    if now.saturating_sub(known.server_heard_at) > known.lease() / 2 && !first {
        known.server_heard_since = now;
    }
    known.server_heard_at = now;
}

/// What the lease is evaluated by.
fn contact(known: &Known, peers: bool) -> ServerContact {
    ServerContact {
        lease: Duration::from_millis(known.facts.lease_ms.into()),
        heard_at: known.heard_at,
        waived: known.facts.is_waived(peers),
    }
}

/// When a server last answered, as far as the disk and the shim know.
fn last_heard(facts: &ServerFacts, boot: &str, found: Lease, now: Duration) -> Duration {
    let lease = Duration::from_millis(facts.lease_ms.into());
    let of_shim = match found {
        Lease::Until(end) => heard_at(end, lease),
        Lease::Unset | Lease::Waived => Duration::ZERO,
    };
    let of_disk = match &facts.heard {
        // Of an earlier release, which did not write it down.
        None if of_shim.is_zero() => now,
        Some(heard) if heard.boot == boot => Duration::from_millis(heard.at_ms),
        // The machine has started since: whatever ran here does no more.
        _ => Duration::ZERO,
    };
    of_disk.max(of_shim).min(now)
}

/// When a server itself last answered. In what an earlier release wrote that is
/// not distinguished from the promises of witnesses.
fn last_answered(facts: &ServerFacts, boot: &str, heard_at: Duration) -> Duration {
    match &facts.answered {
        Some(answered) if answered.boot == boot => {
            Duration::from_millis(answered.at_ms).min(heard_at)
        }
        Some(_) => Duration::ZERO,
        None => heard_at,
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot::{BootClock as _, KernelClock};
    use super::*;

    fn now() -> Duration {
        KernelClock.now()
    }

    fn boot_id() -> String {
        KernelClock.boot_id()
    }

    fn liveness(dir: &std::path::Path) -> Liveness {
        Liveness::open(
            AssignmentStore::open(dir.to_owned()).unwrap(),
            Arc::new(KernelClock),
            Lease::Unset,
            false,
        )
    }

    fn greeting(lease_ms: u32) -> WelcomeInfo {
        WelcomeInfo {
            lease_ms,
            records_promises: true,
            ..WelcomeInfo::default()
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
        let dir = tempfile::tempdir().unwrap();
        let store = || AssignmentStore::open(dir.path().to_owned()).unwrap();
        let end = now() + Duration::from_secs(60);
        let found = Liveness::open(store(), Arc::new(KernelClock), Lease::Until(end), false);
        assert_eq!(found.deadline(true), Lease::Until(end));
        found.welcomed(greeting(10_000), now()).unwrap();
        assert_ne!(found.deadline(true), Lease::Until(end));
        assert_eq!(liveness(dir.path()).lease(), Duration::from_secs(10));
    }

    #[test]
    fn a_server_that_is_behind_is_not_sent_more_and_does_not_count_as_heard() {
        let dir = tempfile::tempdir().unwrap();
        let liveness = liveness(dir.path());
        let sent = (0..100).filter(|_| liveness.sends_load()).count();
        assert_eq!(sent, MAX_UNANSWERED_LOADS);
        let before = liveness.known().heard_at;
        let first = *liveness.known().unanswered.front().unwrap();
        liveness.beat();
        assert_eq!(liveness.known().heard_at, before.max(first));
        // More beats than loads are noise.
        (0..100).for_each(|_| liveness.beat());
        assert!(liveness.sends_load());
    }

    #[test]
    fn node_promises_for_a_lease_after_a_server_is_heard_again() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        assert!(!liveness.hears_server(), "none was ever heard");
        let lease = Duration::from_secs(60);
        let answered = || {
            assert!(liveness.sends_load());
            liveness.beat();
        };
        liveness.welcomed(greeting(60_000), now()).unwrap();
        assert!(liveness.hears_server(), "the first time is no return");
        answered();
        assert!(liveness.hears_server());
        // As after a silence.
        let ago = |time: Duration| now().saturating_sub(time);
        liveness.known().server_heard_at = ago(lease / 3);
        assert!(!liveness.hears_server());
        answered();
        assert!(liveness.hears_server(), "a short gap is none");
        liveness.known().server_heard_at = ago(lease * 2 / 3);
        answered();
        assert!(!liveness.hears_server(), "it is back since just now");
        liveness.known().server_heard_since = ago(lease);
        assert!(liveness.hears_server());
        // Neither peers nor a closed port are a server.
        liveness.known().server_heard_at = ago(lease);
        liveness.witnessed(now());
        liveness.refused("", 1, now());
        assert!(!liveness.hears_server());
    }

    #[test]
    fn promises_of_witnesses_do_not_hide_that_no_server_answers() {
        let folder = tempfile::tempdir().unwrap();
        let lease = Duration::from_secs(10);
        let first = liveness(folder.path());
        first.welcomed(greeting(10_000), now()).unwrap();
        assert!(!first.is_long_silent());
        // As if each round of a long silence had been granted.
        first.known().answered_at = now().saturating_sub(lease * 3);
        first.known().written_at = Duration::ZERO;
        first.witnessed(now());
        assert!(!first.stop_if_due(true, drop), "its lease is extended");
        assert!(
            first.is_long_silent(),
            "a restored store may have lower terms"
        );
        let again = liveness(folder.path());
        assert!(!again.stop_if_due(true, drop));
        assert!(again.is_long_silent(), "also after a restart of the daemon");
        again.welcomed(greeting(10_000), now()).unwrap();
        assert!(!again.is_long_silent());
        let quick = liveness(folder.path());
        assert!(!quick.is_long_silent(), "an old leader is not followed");
    }

    #[test]
    fn lease_of_another_control_plane_ends_before_its_server_is_followed() {
        const SERVER: &str = "https://10.0.0.1:7700";
        let with = |alone, waived| {
            let folder = tempfile::tempdir().unwrap();
            let liveness = liveness(folder.path());
            let welcome = WelcomeInfo {
                alone,
                address: SERVER.into(),
                ..greeting(60_000)
            };
            liveness.welcomed(welcome, now()).unwrap();
            liveness.promised(waived, None).unwrap();
            (folder, liveness)
        };
        for (alone, waived, address, known, lasts) in [
            (true, false, SERVER, 1, false),
            (true, false, SERVER, 2, true),
            (true, false, "https://10.0.0.2:7700", 1, true),
            (false, false, SERVER, 1, true),
            (false, true, SERVER, 1, false),
        ] {
            let (_folder, liveness) = with(alone, waived);
            let until = liveness.leased_elsewhere_until(address, known);
            assert_eq!(until.is_some(), lasts, "{alone} {waived} {address} {known}");
        }
        // Nothing extends it from then on.
        let (_folder, liveness) = with(true, false);
        let heard = liveness.known().heard_at;
        liveness.let_lease_end();
        liveness.witnessed(now());
        liveness.refused(SERVER, 1, now());
        assert_eq!(liveness.known().heard_at, heard);
        let another = WelcomeInfo {
            is_another: true,
            ..greeting(60_000)
        };
        liveness.welcomed(another, now()).unwrap();
        liveness.witnessed(now());
        assert!(liveness.known().by_witnesses);
    }

    #[test]
    fn promise_of_another_control_plane_is_no_waiver() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        liveness.welcomed(greeting(60_000), now()).unwrap();
        liveness.promised(true, None).unwrap();
        liveness.welcomed(greeting(60_000), now()).unwrap();
        assert_eq!(liveness.deadline(true), Lease::Waived);
        let another = WelcomeInfo {
            is_another: true,
            ..greeting(60_000)
        };
        liveness.welcomed(another, now()).unwrap();
        assert!(matches!(liveness.deadline(true), Lease::Until(_)));
    }

    #[test]
    fn closed_port_counts_only_at_the_address_of_the_only_server() {
        const SERVER: &str = "https://10.0.0.1:7700";
        for (alone, address, known, counts) in [
            (true, SERVER, 1, true),
            (true, SERVER, 2, false),
            (true, "https://10.0.0.2:7700", 1, false),
            (false, SERVER, 1, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let liveness = liveness(folder.path());
            let long_ago = now().saturating_sub(Duration::from_secs(50));
            let welcome = WelcomeInfo {
                alone,
                address: SERVER.into(),
                ..greeting(60_000)
            };
            liveness.welcomed(welcome, long_ago).unwrap();
            // As a daemon that was restarted meanwhile knows it.
            let liveness = self::liveness(folder.path());
            let tried_at = now();
            liveness.refused(address, known, tried_at);
            let heard = liveness.known().heard_at == tried_at;
            assert_eq!(heard, counts, "{alone} {address} {known}");
        }
    }

    #[test]
    fn waiver_holds_only_within_the_boot_that_it_was_given_in() {
        let dir = tempfile::tempdir().unwrap();
        let first = liveness(dir.path());
        first.welcomed(greeting(60_000), now()).unwrap();
        first.promised(true, None).unwrap();
        assert_eq!(liveness(dir.path()).deadline(true), Lease::Waived);
        let store = AssignmentStore::open(dir.path().to_owned()).unwrap();
        let facts = store.server();
        for heard in [
            None,
            Some(BootTimestamp {
                boot: "another".into(),
                at_ms: 1,
            }),
        ] {
            let heard = ServerFacts {
                heard,
                ..facts.clone()
            };
            store.write_server(&heard).unwrap();
            assert!(!heard.is_waived_in(&boot_id(), true));
            let again = liveness(dir.path());
            assert!(matches!(again.deadline(true), Lease::Until(_)));
        }
    }

    #[test]
    fn daemon_that_was_restarted_in_an_outage_promises_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        liveness(folder.path())
            .welcomed(greeting(60_000), now())
            .unwrap();
        let again = liveness(folder.path());
        again.welcomed(greeting(60_000), now()).unwrap();
        assert!(!again.hears_server());
    }

    #[test]
    fn waits_for_a_server_are_parts_of_the_lease_while_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let liveness = liveness(folder.path());
        let (longest, seconds) = (Duration::from_secs(30), Duration::from_secs);
        let waits = || {
            (
                liveness.connect_timeout(longest),
                liveness.silence_timeout(longest),
                liveness.welcome_timeout(longest),
            )
        };
        assert_eq!(waits(), (longest, longest, longest), "there is no lease");
        liveness.welcomed(greeting(8_000), now()).unwrap();
        assert_eq!(waits(), (seconds(2), seconds(4), seconds(8)));
        liveness.known().heard_at = now().saturating_sub(seconds(9));
        assert_eq!(waits(), (longest, seconds(4), longest), "it has ended");
    }

    #[tokio::test]
    async fn lease_is_watched_once_the_server_sets_it() {
        let dir = tempfile::tempdir().unwrap();
        let liveness = liveness(dir.path());
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
        let dir = tempfile::tempdir().unwrap();
        let first = liveness(dir.path());
        let heard = first.now();
        first.welcomed(greeting(60_000), heard).unwrap();
        let again = liveness(dir.path());
        let counted = heard.saturating_sub(again.known().heard_at);
        assert!(counted < Duration::from_millis(1), "{counted:?}");
        // The shim may know better than the disk.
        let later = heard - Duration::from_millis(3);
        let end = later + max_wait(again.lease()) + super::super::lease::grace(again.lease());
        let store = AssignmentStore::open(dir.path().to_owned()).unwrap();
        let facts = ServerFacts {
            heard: Some(BootTimestamp {
                boot: boot_id(),
                at_ms: 1,
            }),
            ..store.server()
        };
        store.write_server(&facts).unwrap();
        let third = Liveness::open(
            store.clone(),
            Arc::new(KernelClock),
            Lease::Until(end),
            false,
        );
        assert_eq!(third.known().heard_at, later);
        // Another boot: nothing of it runs, and nothing is left of the lease.
        let facts = ServerFacts {
            heard: Some(BootTimestamp {
                boot: "another".into(),
                at_ms: u64::MAX,
            }),
            ..facts
        };
        store.write_server(&facts).unwrap();
        assert!(
            Liveness::open(store, Arc::new(KernelClock), Lease::Unset, false)
                .stop_if_due(true, drop)
        );
    }

    #[test]
    fn only_a_recorded_promise_frees_from_the_lease() {
        let dir = tempfile::tempdir().unwrap();
        let liveness = liveness(dir.path());
        let long_ago = liveness.now() - Duration::from_secs(1);
        liveness.welcomed(greeting(1), long_ago).unwrap();
        wait(&liveness);
        assert!(liveness.stop_if_due(false, drop), "no peers is no promise");
        liveness.farewell().unwrap();
        assert!(liveness.stop_if_due(true, drop), "nor is a farewell");
        liveness.promised(true, None).unwrap();
        assert!(!liveness.stop_if_due(true, drop));
        assert_eq!(liveness.deadline(true), Lease::Waived);
        let again = self::liveness(dir.path());
        assert!(!again.stop_if_due(true, drop), "it outlives the daemon");
        again.promised(false, None).unwrap();
        // It counts from then on.
        while !again.stop_if_due(true, drop) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn lease_beside_the_only_server_has_an_end_unless_it_is_waived() {
        let dir = tempfile::tempdir().unwrap();
        let store = || AssignmentStore::open(dir.path().to_owned()).unwrap();
        let open = || Liveness::open(store(), Arc::new(KernelClock), Lease::Unset, true);
        let beside = open();
        let long_ago = beside.now() - Duration::from_secs(1);
        let only = WelcomeInfo {
            alone: true,
            ..greeting(60_000)
        };
        beside.welcomed(only.clone(), long_ago).unwrap();
        assert!(matches!(beside.deadline(true), Lease::Until(_)));
        beside.promised(true, None).unwrap();
        assert_eq!(beside.deadline(true), Lease::Waived);
        assert_eq!(open().deadline(true), Lease::Waived);
    }

    #[test]
    fn restart_beside_one_of_several_servers_renews_no_lease() {
        for (alone, renews) in [(true, true), (false, false)] {
            let dir = tempfile::tempdir().unwrap();
            let store = || AssignmentStore::open(dir.path().to_owned()).unwrap();
            let open = || Liveness::open(store(), Arc::new(KernelClock), Lease::Unset, true);
            let welcome = WelcomeInfo {
                alone,
                ..greeting(60_000)
            };
            let beside = open();
            beside.welcomed(welcome, beside.now()).unwrap();
            let long_ago = beside.now().saturating_sub(Duration::from_secs(50));
            let facts = ServerFacts {
                heard: Some(beside.stamp(long_ago)),
                ..store().server()
            };
            store().write_server(&facts).unwrap();
            assert_eq!(!open().stop_if_due(true, drop), renews, "{alone}");
        }
    }

    #[test]
    fn server_of_an_earlier_release_is_taken_at_its_word() {
        let dir = tempfile::tempdir().unwrap();
        let liveness = liveness(dir.path());
        let old = WelcomeInfo {
            records_promises: false,
            ..greeting(1)
        };
        let long_ago = liveness.now() - Duration::from_secs(1);
        liveness.welcomed(old, long_ago).unwrap();
        wait(&liveness);
        assert!(!liveness.stop_if_due(false, drop), "there are no peers");
        assert!(liveness.stop_if_due(true, drop));
        liveness.farewell().unwrap();
        assert!(
            !liveness.stop_if_due(true, drop),
            "server announced its shutdown"
        );
    }
}
