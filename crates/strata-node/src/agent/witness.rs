//! Nodes as witnesses for each other while no server answers.
//!
//! A node that reaches no server cannot determine whether it is cut off, so
//! that what it runs is started elsewhere, or whether the server is gone, so
//! that nothing can be. Its peers can: an instance is started elsewhere only by
//! one of them, and only after a server has assigned it. So before its lease
//! ends the node requests a promise of all of them: *I reach no server either,
//! and for the length of a lease I start nothing that I do not have already.*
//! When all promise, the lease is extended, as if a server had answered at the
//! time of the request. When one does not answer, or reaches a server, the
//! lease goes on to its end.
//!
//! The server's part is never to assign what a lost node had to a node that is
//! not among the witnesses which that node has confirmed.
//!
//! Requests and replies (`witness_message.rs`) carry a code under a key of these
//! two nodes alone, from their server.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as StdSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_identity::{hmac_sha256, is_hmac_sha256};
use tokio::net::UdpSocket;
use uuid::Uuid;

use super::AgentContext;
use super::boot::SharedClock;
use super::state::{AssignmentStore, BootTimestamp};
use super::witness_message::{self, REPLY, REQUEST};

const MAX_MESSAGE: usize = 512;
/// No promise is for longer than so many leases of this node. Every node has
/// the lease of its server, which may have been changed and not reached all of
/// them yet; a node that requests more keeps others from starting anything.
const MAX_LEASES: u32 = 2;
/// A request that is not answered is sent this often.
const TRIES: u32 = 3;

/// A node that can promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WitnessPeer {
    pub(crate) name: String,
    pub(crate) address: SocketAddrV4,
    pub(crate) key: Vec<u8>,
}

/// Those that can promise, and what this node is called among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Witnesses {
    pub(crate) own_name: String,
    pub(crate) own_port: u16,
    pub(crate) peers: Vec<WitnessPeer>,
}

/// The witnesses that a server named; none where some node is none.
pub(super) fn read(peers: &v1::Peers, own_port: u16) -> Option<Witnesses> {
    let one = |one: &v1::Witness| {
        let address: Ipv4Addr = one.address.parse().ok()?;
        Some(WitnessPeer {
            name: one.name.clone(),
            address: SocketAddrV4::new(address, u16::try_from(one.port).ok()?),
            key: one.key.clone(),
        })
    };
    let all: Option<Vec<_>> = peers.witnesses.iter().map(one).collect();
    Some(Witnesses {
        own_name: peers.name.clone(),
        own_port,
        peers: all.filter(|_| peers.witnessed)?,
    })
}

/// This node as a witness. What it promised outlives the daemon.
pub(super) struct Witness {
    store: AssignmentStore,
    clock: SharedClock,
    boot: String,
    socket: Option<StdSocket>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing new is started before this boot time.
    hold_until: Duration,
    /// The same on disk: later, so that it is not written for each promise.
    written_until: Duration,
    /// Of the peers that may request a promise, by name.
    keys: HashMap<String, Vec<u8>>,
}

fn bind(port: u16) -> Option<StdSocket> {
    let bound = StdSocket::bind((Ipv4Addr::UNSPECIFIED, port));
    let bound = bound.or_else(|_| StdSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    if let Err(error) = &bound {
        tracing::warn!(%error, "witness not available to peers");
    }
    bound.ok()
}

impl Witness {
    /// Listens on the port that others know, or on one of the kernel's choice;
    /// where it cannot, or may not, this node is no witness.
    pub(super) fn open(store: AssignmentStore, clock: SharedClock, listens: bool) -> Self {
        let (facts, boot) = (store.server(), clock.boot_id());
        let known = facts.witnesses.as_ref();
        let before = known.map_or(0, |known| known.own_port);
        let socket = listens.then(|| bind(before)).flatten();
        let until = match store.promised() {
            None => Duration::ZERO,
            Some(promised) if promised.boot == boot => Duration::from_millis(promised.at_ms),
            // It was given before the host started: how long before is not
            // known, and it may have been for so long.
            Some(_) => Duration::from_millis(facts.lease_ms.into()) * MAX_LEASES,
        };
        let witness = Self {
            store,
            clock,
            boot,
            socket,
            state: Mutex::default(),
        };
        {
            let mut state = witness.state();
            state.hold_until = until;
            state.written_until = state.hold_until;
        }
        witness.set_peers(known.map_or(&[], |known| &known.peers));
        witness
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port that it answers on; 0 when it does not.
    pub(super) fn port(&self) -> u16 {
        let address = self.socket.as_ref().map(StdSocket::local_addr);
        address.and_then(Result::ok).map_or(0, |at| at.port())
    }

    pub(super) fn set_peers(&self, peers: &[WitnessPeer]) {
        let keys = peers.iter().map(|one| (one.name.clone(), one.key.clone()));
        self.state().keys = keys.collect();
    }

    /// Accepts something that is assigned, which is not started before the end
    /// of what was promised. No promise is given meanwhile.
    pub(super) fn while_assigning<T>(&self, assign: impl FnOnce(Duration) -> T) -> T {
        let state = self.state();
        assign(state.hold_until.saturating_sub(self.clock.now()))
    }

    /// Answers requests of peers, until the node ends. `is_free` reports
    /// whether this node can promise: it reaches no server, and has nothing
    /// that waits for the end of a promise. `own_lease` is how long this node's
    /// own lease is.
    pub(super) async fn serve(&self, is_free: impl Fn() -> bool, own_lease: impl Fn() -> Duration) {
        let socket = self.socket.as_ref().map(StdSocket::try_clone);
        let Some(Ok(socket)) = socket else {
            return std::future::pending().await;
        };
        let socket = match UdpSocket::from_std(socket) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "witness not available to peers");
                return std::future::pending().await;
            }
        };
        let mut buffer = [0u8; MAX_MESSAGE];
        loop {
            let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
                continue;
            };
            let longest = own_lease() * MAX_LEASES;
            if let Some(reply) = self.answer(&buffer[..len], longest, &is_free) {
                let _ = socket.send_to(&reply, from).await;
            }
        }
    }

    /// The reply to a datagram; none to what is no request of a peer.
    fn answer(
        &self,
        datagram: &[u8],
        longest: Duration,
        is_free: &impl Fn() -> bool,
    ) -> Option<Vec<u8>> {
        let request = witness_message::request(datagram)?;
        let lease = Duration::from_millis(request.lease_ms.into());
        let mut state = self.state();
        let key = state.keys.get(request.name)?.clone();
        if !is_hmac_sha256(&key, request.body, request.code) {
            return None;
        }
        let until = state.hold_until.max(self.clock.now() + lease);
        // Under the lock: nothing is assigned meanwhile.
        let promised = lease <= longest && is_free() && self.is_written(&mut state, until, lease);
        if promised {
            state.hold_until = until;
        }
        drop(state);
        let mut reply = [REPLY, request.nonce, &[u8::from(promised)]].concat();
        reply.extend(hmac_sha256(&key, &reply));
        Some(reply)
    }
}

impl Witness {
    /// Whether a daemon that starts after this one keeps a promise until then.
    fn is_written(&self, state: &mut State, until: Duration, lease: Duration) -> bool {
        if until <= state.written_until {
            return true;
        }
        let later = until + lease;
        let promised = BootTimestamp {
            boot: self.boot.clone(),
            at_ms: u64::try_from(later.as_millis()).unwrap_or(u64::MAX),
        };
        match self.store.write_promised(&promised) {
            Ok(()) => {
                state.written_until = later;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "witness promise refused");
                false
            }
        }
    }
}

/// Queries all witnesses, within this time; whether all of them promise. The
/// addressees do not matter when there are none: nothing can be started
/// elsewhere.
pub(super) async fn all_promise(
    own: &str,
    witnesses: &[WitnessPeer],
    lease: Duration,
    within: Duration,
) -> bool {
    let asked = ask(own, witnesses, lease, within);
    matches!(tokio::time::timeout(within, asked).await, Ok(Ok(true)))
}

async fn ask(
    own: &str,
    witnesses: &[WitnessPeer],
    lease: Duration,
    within: Duration,
) -> std::io::Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let nonce = Uuid::now_v7().into_bytes();
    let lease = u32::try_from(lease.as_millis()).unwrap_or(u32::MAX);
    let length = u8::try_from(own.len()).unwrap_or(u8::MAX);
    let name = &own.as_bytes()[..usize::from(length)];
    let body = [REQUEST, &nonce[..], &lease.to_be_bytes(), &[length], name].concat();
    let mut open: Vec<&WitnessPeer> = witnesses.iter().collect();
    let mut buffer = [0u8; MAX_MESSAGE];
    let mut resend = tokio::time::interval(within / TRIES);
    while !open.is_empty() {
        tokio::select! {
            _ = resend.tick() => {
                for one in &open {
                    let code = hmac_sha256(&one.key, &body);
                    let datagram = [&body[..], &code].concat();
                    // What is lost is sent again.
                    let _ = socket.send_to(&datagram, SocketAddr::V4(one.address)).await;
                }
            }
            received = socket.recv_from(&mut buffer) => {
                let Ok((len, _)) = received else { continue };
                let datagram = &buffer[..len];
                let of = open.iter().position(|one| promised(datagram, &nonce, &one.key).is_some());
                let Some(of) = of else { continue };
                if promised(datagram, &nonce, &open[of].key) != Some(true) {
                    return Ok(false);
                }
                open.swap_remove(of);
            }
        }
    }
    Ok(true)
}

/// What a reply to this nonce contains; none for anything else.
fn promised(datagram: &[u8], nonce: &[u8], key: &[u8]) -> Option<bool> {
    let reply = witness_message::reply(datagram, nonce)?;
    is_hmac_sha256(key, reply.body, reply.code).then_some(reply.promised)
}

impl AgentContext {
    /// Has peers extend the lease while no server answers.
    pub(super) async fn be_witnessed(&self) {
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(self.liveness.until_witnesses()) => {}
            }
            let lease = self.liveness.lease();
            let Some(witnesses) = self.liveness.witnesses_if_due() else {
                continue;
            };
            let sent = self.liveness.now();
            if all_promise(&witnesses.own_name, &witnesses.peers, lease, lease / 8).await {
                self.liveness.witnessed(sent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot::{BootClock as _, KernelClock};
    use super::super::state::ServerFacts;
    use super::*;

    fn peer(name: &str, port: u16) -> WitnessPeer {
        WitnessPeer {
            name: name.into(),
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            key: name.as_bytes().repeat(8),
        }
    }

    fn opened(dir: &std::path::Path) -> Witness {
        let store = AssignmentStore::open(dir.to_owned()).unwrap();
        Witness::open(store, std::sync::Arc::new(KernelClock), true)
    }

    fn witness() -> Witness {
        let dir = tempfile::tempdir().unwrap().keep();
        opened(&dir)
    }

    #[test]
    fn promise_outlives_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let open = || opened(dir.path());
        let first = open();
        let hold = |witness: &Witness| witness.while_assigning(|hold| hold);
        assert_eq!(hold(&first), Duration::ZERO);
        let until = KernelClock.now() + LEASE;
        assert!(first.is_written(&mut first.state(), until, LEASE));
        assert!(hold(&open()) > LEASE / 2);
    }

    /// A clock of another boot.
    struct Rebooted(Duration);

    impl super::super::boot::BootClock for Rebooted {
        fn now(&self) -> Duration {
            self.0
        }

        fn boot_id(&self) -> String {
            "another".to_owned()
        }
    }

    #[test]
    fn promise_outlives_the_boot_in_which_it_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let store = || AssignmentStore::open(dir.path().to_owned()).unwrap();
        let facts = ServerFacts {
            lease_ms: 5000,
            ..ServerFacts::default()
        };
        store().write_server(&facts).unwrap();
        let booted = |since| {
            let clock = std::sync::Arc::new(Rebooted(Duration::from_secs(since)));
            let witness = Witness::open(store(), clock, true);
            witness.while_assigning(|hold| hold)
        };
        assert_eq!(booted(1), Duration::ZERO, "it promised nothing");
        let first = opened(dir.path());
        let until = KernelClock.now() + LEASE;
        assert!(first.is_written(&mut first.state(), until, LEASE));
        // It was given before the host started, by the longest lease there is.
        assert_eq!(booted(1), 2 * LEASE - Duration::from_secs(1));
        assert_eq!(booted(60), Duration::ZERO);
    }

    const LEASE: Duration = Duration::from_secs(5);
    const REPLY_TIMEOUT: Duration = Duration::from_millis(600);

    #[tokio::test]
    async fn promise_is_given_by_those_without_a_server_and_holds_what_is_new() {
        let (one, two) = (witness(), witness());
        // The key of a pair is known to both; here it is that of the queried
        // node.
        let asks = |name: &str| WitnessPeer {
            name: "me".into(),
            ..peer(name, 0)
        };
        one.set_peers(&[asks("one")]);
        two.set_peers(&[asks("two")]);
        let all = [peer("one", one.port()), peer("two", two.port())];
        let free = std::sync::atomic::AtomicBool::new(true);
        let is_free = || free.load(std::sync::atomic::Ordering::Relaxed);
        let served =
            async { tokio::join!(one.serve(|| true, || LEASE), two.serve(is_free, || LEASE)) };
        let asked = async {
            assert!(all_promise("me", &all, LEASE, REPLY_TIMEOUT).await);
            let hold = one.while_assigning(|hold| hold);
            assert!(hold > LEASE / 2 && hold <= LEASE, "{hold:?}");
            // A peer that was taken over requests an hour.
            let hour = Duration::from_secs(3600);
            assert!(
                !all_promise("me", &all, hour, REPLY_TIMEOUT).await,
                "too long"
            );
            let hold = one.while_assigning(|hold| hold);
            assert!(hold <= LEASE, "{hold:?}");
            assert!(all_promise("me", &[], LEASE, REPLY_TIMEOUT).await);
            assert!(!all_promise("stranger", &all, LEASE, REPLY_TIMEOUT).await);
            free.store(false, std::sync::atomic::Ordering::Relaxed);
            assert!(
                !all_promise("me", &all, LEASE, REPLY_TIMEOUT).await,
                "it follows one"
            );
            free.store(true, std::sync::atomic::Ordering::Relaxed);
            let other = WitnessPeer {
                key: vec![1; 32],
                ..peer("two", two.port())
            };
            assert!(
                !all_promise("me", &[other], LEASE, REPLY_TIMEOUT).await,
                "another key"
            );
            assert!(!all_promise("me", &[peer("gone", 9)], LEASE, REPLY_TIMEOUT).await);
            assert!(all_promise("me", &all, LEASE, REPLY_TIMEOUT).await);
        };
        tokio::select! {
            _ = served => {}
            () = asked => {}
        }
    }

    #[test]
    fn noise_is_not_answered() {
        let one = witness();
        one.set_peers(&[peer("me", 0)]);
        for len in 0..80 {
            let mut noise = vec![7u8; len];
            noise
                .iter_mut()
                .zip(REQUEST)
                .for_each(|(to, from)| *to = *from);
            assert_eq!(one.answer(&noise, LEASE, &|| true), None);
        }
    }
}
