//! Nodes as witnesses for each other while no server is heard.
//!
//! A node that hears no server cannot tell whether it is cut off, so that what
//! it runs is started elsewhere, or whether the server is gone, so that nothing
//! can be. Its peers can: an instance is started elsewhere only by one of them,
//! and only after a server has assigned it. So before its lease ends the node
//! asks all of them for a promise: *I hear no server either, and for the length
//! of a lease I start nothing that I do not have already.* When all promise, the
//! lease is extended, as if a server had answered at the moment of asking. When
//! one does not answer, or hears a server, the lease goes on to its end.
//!
//! The server's part is never to assign what a lost node had to a node that is
//! not among the witnesses which that node has confirmed.
//!
//! ```text
//! request  "SWR1" nonce[16] lease_ms[4] name_length[1] name mac[32]
//! reply    "SWA1" nonce[16] promised[1] mac[32]
//! ```
//! Both carry a code under a key of these two nodes alone, from their server.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as StdSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_identity::{hmac_sha256, is_hmac_sha256};
use tokio::net::UdpSocket;
use uuid::Uuid;

use super::Parts;
use super::liveness::{boot_id, now};
use super::state::{Heard, Kept};

const REQUEST: &[u8; 4] = b"SWR1";
const REPLY: &[u8; 4] = b"SWA1";
const NONCE: usize = 16;
const MAC: usize = 32;
const LONGEST: usize = 512;
/// No promise is for longer.
const LONGEST_LEASE: Duration = Duration::from_secs(3600);
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
    kept: Kept,
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
    /// Of those that may ask, by name.
    keys: HashMap<String, Vec<u8>>,
}

impl Witness {
    /// Listens on the port that others know, or on one of the kernel's choice;
    /// where it cannot, this node is no witness.
    pub(super) fn open(kept: Kept) -> Self {
        let (facts, boot) = (kept.server(), boot_id());
        let known = facts.witnesses.as_ref();
        let before = known.map_or(0, |known| known.own_port);
        let bound = StdSocket::bind((Ipv4Addr::UNSPECIFIED, before));
        let bound = bound.or_else(|_| StdSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
        let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        if let Err(error) = &bound {
            tracing::warn!(%error, "this node is no witness for others");
        }
        let promised = kept.promised().filter(|promised| promised.boot == boot);
        let until = promised.map_or(0, |promised| promised.at_ms);
        let witness = Self {
            kept,
            boot,
            socket: bound.ok(),
            state: Mutex::default(),
        };
        {
            let mut state = witness.state();
            state.hold_until = Duration::from_millis(until);
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

    /// Who may ask.
    pub(super) fn set_peers(&self, peers: &[WitnessPeer]) {
        let keys = peers.iter().map(|one| (one.name.clone(), one.key.clone()));
        self.state().keys = keys.collect();
    }

    /// Takes in something that is assigned, which is not started before the end
    /// of what was promised. No promise is given meanwhile.
    pub(super) fn while_assigning<T>(&self, assign: impl FnOnce(Duration) -> T) -> T {
        let state = self.state();
        assign(state.hold_until.saturating_sub(now()))
    }

    /// Answers those who ask, until the node ends.
    /// `is_free` says whether this node can promise: it hears no server, and has
    /// nothing that waits for the end of a promise.
    pub(super) async fn serve(&self, is_free: impl Fn() -> bool) {
        let socket = self.socket.as_ref().map(StdSocket::try_clone);
        let Some(Ok(socket)) = socket else {
            return std::future::pending().await;
        };
        let socket = match UdpSocket::from_std(socket) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "this node is no witness for others");
                return std::future::pending().await;
            }
        };
        let mut buffer = [0u8; LONGEST];
        loop {
            let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
                continue;
            };
            if let Some(reply) = self.answer(&buffer[..len], &is_free) {
                let _ = socket.send_to(&reply, from).await;
            }
        }
    }

    /// The reply to a datagram; none to what is no request of a peer.
    fn answer(&self, datagram: &[u8], is_free: &impl Fn() -> bool) -> Option<Vec<u8>> {
        let (body, code) = datagram.split_at_checked(datagram.len().checked_sub(MAC)?)?;
        let rest = body.strip_prefix(REQUEST)?;
        let (nonce, rest) = rest.split_at_checked(NONCE)?;
        let (lease, rest) = rest.split_at_checked(4)?;
        let (length, name) = rest.split_first()?;
        if name.len() != usize::from(*length) {
            return None;
        }
        let lease = u32::from_be_bytes(lease.try_into().ok()?);
        let lease = Duration::from_millis(lease.into()).min(LONGEST_LEASE);
        let mut state = self.state();
        let key = state.keys.get(std::str::from_utf8(name).ok()?)?.clone();
        if !is_hmac_sha256(&key, body, code) {
            return None;
        }
        let until = state.hold_until.max(now() + lease);
        // Under the lock: nothing is assigned meanwhile.
        let promised = is_free() && self.is_written(&mut state, until, lease);
        if promised {
            state.hold_until = until;
        }
        drop(state);
        let mut reply = [REPLY, nonce, &[u8::from(promised)]].concat();
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
        let promised = Heard {
            boot: self.boot.clone(),
            at_ms: u64::try_from(later.as_millis()).unwrap_or(u64::MAX),
        };
        match self.kept.write_promised(&promised) {
            Ok(()) => {
                state.written_until = later;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "no promise is given to another node");
                false
            }
        }
    }
}

/// Asks all witnesses, within this time; whether all of them promise. Who is
/// asked does not matter when there are none: nothing can be started elsewhere.
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
    let mut buffer = [0u8; LONGEST];
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

/// What a reply to this nonce says; none for anything else.
fn promised(datagram: &[u8], nonce: &[u8], key: &[u8]) -> Option<bool> {
    let (body, code) = datagram.split_at_checked(datagram.len().checked_sub(MAC)?)?;
    let rest = body.strip_prefix(REPLY)?.strip_prefix(nonce)?;
    match (rest, is_hmac_sha256(key, body, code)) {
        ([promised], true) => Some(*promised == 1),
        _ => None,
    }
}

impl Parts {
    /// Has peers extend the lease while no server is heard.
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
            let sent = now();
            if all_promise(&witnesses.own_name, &witnesses.peers, lease, lease / 8).await {
                self.liveness.witnessed(sent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, port: u16) -> WitnessPeer {
        WitnessPeer {
            name: name.into(),
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            key: name.as_bytes().repeat(8),
        }
    }

    fn witness() -> Witness {
        let folder = tempfile::tempdir().unwrap().keep();
        Witness::open(Kept::open(folder).unwrap())
    }

    #[test]
    fn promise_outlives_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Witness::open(Kept::open(folder.path().to_owned()).unwrap());
        let first = open();
        let hold = |witness: &Witness| witness.while_assigning(|hold| hold);
        assert_eq!(hold(&first), Duration::ZERO);
        let until = now() + LEASE;
        assert!(first.is_written(&mut first.state(), until, LEASE));
        assert!(hold(&open()) > LEASE / 2);
    }

    const LEASE: Duration = Duration::from_secs(5);
    const SOON: Duration = Duration::from_millis(600);

    #[tokio::test]
    async fn promise_is_given_by_those_without_a_server_and_holds_what_is_new() {
        let (one, two) = (witness(), witness());
        // The key of a pair is known to both; here it is the asked one's.
        let asks = |name: &str| WitnessPeer {
            name: "me".into(),
            ..peer(name, 0)
        };
        one.set_peers(&[asks("one")]);
        two.set_peers(&[asks("two")]);
        let all = [peer("one", one.port()), peer("two", two.port())];
        let free = std::sync::atomic::AtomicBool::new(true);
        let is_free = || free.load(std::sync::atomic::Ordering::Relaxed);
        let served = async { tokio::join!(one.serve(|| true), two.serve(is_free)) };
        let asked = async {
            assert!(all_promise("me", &all, LEASE, SOON).await);
            let hold = one.while_assigning(|hold| hold);
            assert!(hold > LEASE / 2 && hold <= LEASE, "{hold:?}");
            assert!(all_promise("me", &[], LEASE, SOON).await);
            assert!(!all_promise("stranger", &all, LEASE, SOON).await);
            free.store(false, std::sync::atomic::Ordering::Relaxed);
            assert!(
                !all_promise("me", &all, LEASE, SOON).await,
                "it follows one"
            );
            free.store(true, std::sync::atomic::Ordering::Relaxed);
            let other = WitnessPeer {
                key: vec![1; 32],
                ..peer("two", two.port())
            };
            assert!(
                !all_promise("me", &[other], LEASE, SOON).await,
                "another key"
            );
            assert!(!all_promise("me", &[peer("gone", 9)], LEASE, SOON).await);
            assert!(all_promise("me", &all, LEASE, SOON).await);
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
            assert_eq!(one.answer(&noise, &|| true), None);
        }
    }
}
