//! The ways to nodes: each node opens a tunnel, over which its own API is
//! called. Each call is made for a principal, whose name and role go with it:
//! the node authorizes by those. So does the term in which this server leads: a
//! server that was paused meanwhile is refused by nodes that follow another,
//! and one that does not lead for certain calls none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use strata_api::strata::v1::Chunk;
use strata_tasks::spawn_detached;
use strata_transport::{CALLER_NAME, CALLER_ROLE, LEADER_TERM, TunnelIo};
use strata_types::{Error, Result};
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::core::{Core, Principal};

/// What may be under way on one call through a tunnel, and on all of them: a
/// call whose answer is not read must not hold up the others, so there is room
/// for as many full ones as a node serves at once.
const CALL_WINDOW: u32 = 64 << 10;
const TUNNEL_WINDOW: u32 = 256 * CALL_WINDOW;

/// How long a node may take to answer HTTP/2 on a new tunnel.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a tunnel is probed while it is idle, and how long a node may take
/// to answer that: a machine that was switched off closes nothing.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Every tunnel there is. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<All>);

struct All {
    /// Knows whether this server leads, and in which term.
    core: Option<Core>,
    /// The newest of each node that has come up.
    open: Mutex<HashMap<String, Tunnel>>,
    /// How many nodes have opened so far: later ones have higher numbers.
    opened: AtomicU64,
    changed: watch::Sender<()>,
}

impl Default for All {
    fn default() -> Self {
        Self {
            core: None,
            open: Mutex::default(),
            opened: AtomicU64::new(0),
            changed: watch::Sender::new(()),
        }
    }
}

#[derive(Clone)]
struct Tunnel {
    number: u64,
    channel: Channel,
    /// In which the node opened it.
    term: u64,
}

/// A node's API, called for a caller.
pub type NodeChannel = InterceptedService<Channel, OnBehalf>;

impl Tunnels {
    /// Those of a server that may lose the lead.
    pub fn new(core: Core) -> Self {
        Self(Arc::new(All {
            core: Some(core),
            ..All::default()
        }))
    }

    fn guard(&self) -> MutexGuard<'_, HashMap<String, Tunnel>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has calls to a node go by this tunnel, unless a newer one came up
    /// before.
    fn insert(&self, node: &str, number: u64, term: u64, channel: Channel) {
        let mut open = self.guard();
        if open.get(node).is_some_and(|one| one.number > number) {
            return;
        }
        let tunnel = Tunnel {
            number,
            channel,
            term,
        };
        open.insert(node.to_owned(), tunnel);
        drop(open);
        self.0.changed.send_replace(());
    }

    /// The number of the tunnel that calls to a node go by; 0 while there is
    /// none.
    fn number(&self, node: &str) -> u64 {
        self.guard().get(node).map_or(0, |one| one.number)
    }

    /// Waits until calls to a node go by another tunnel than the one that this
    /// is called with: calls on that one may never be answered.
    async fn replaced(&self, node: &str, number: u64) {
        let mut changed = self.0.changed.subscribe();
        while self.number(node) == number {
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Calls a node, again by each tunnel that it opens meanwhile: the earlier
    /// tunnel may be of a machine that is gone.
    pub(crate) async fn newest<F: Future>(&self, node: &str, call: impl Fn() -> F) -> F::Output {
        loop {
            let number = self.number(node);
            tokio::select! {
                done = call() => return done,
                () = self.replaced(node, number) => {}
            }
        }
    }

    /// Takes a node's tunnel into use; an older one of the same node is left.
    pub(super) fn open(
        &self,
        node: &str,
        incoming: Streaming<Chunk>,
    ) -> ReceiverStream<Result<Chunk, Status>> {
        let (io, answer) = TunnelIo::answering(incoming);
        let (all, node) = (self.clone(), node.to_owned());
        let number = self.0.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let term = self.0.core.as_ref().map_or(0, Core::term);
        spawn_detached("node-tunnel", async move {
            let mut io = Some(TokioIo::new(io));
            let connector = tower::service_fn(move |_: http::Uri| {
                // One tunnel is one connection: the node opens the next.
                let io = io
                    .take()
                    .ok_or_else(|| std::io::Error::other("the tunnel ended"));
                std::future::ready(io)
            });
            let endpoint = Endpoint::from_static("http://node")
                .initial_stream_window_size(CALL_WINDOW)
                .initial_connection_window_size(TUNNEL_WINDOW)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .connect_timeout(CONNECT_TIMEOUT);
            match endpoint.connect_with_connector(connector).await {
                Ok(channel) => all.insert(&node, number, term, channel),
                Err(error) => tracing::debug!(node, %error, "a tunnel did not come up"),
            }
        });
        answer
    }

    /// The API of a node, called for `principal`.
    pub fn node(&self, node: &str, principal: &Principal) -> Result<NodeChannel> {
        let (channel, on_behalf) = self.reach(node, principal)?;
        Ok(InterceptedService::new(channel, on_behalf))
    }

    fn reach(&self, node: &str, principal: &Principal) -> Result<(Channel, OnBehalf)> {
        let open = self.guard().get(node).cloned();
        let Tunnel { channel, term, .. } = open.ok_or_else(|| {
            Error::unavailable(format!("there is no connection to node {node}"))
                .with_hint("see whether it is up: strata node list")
        })?;
        let text = |text: &str| {
            text.parse::<MetadataValue<Ascii>>()
                .map_err(|_| Error::internal("a caller's name does not fit a header"))
        };
        let on_behalf = OnBehalf {
            role: text(principal.role.as_str())?,
            name: text(&principal.name)?,
            term: (term != 0).then(|| term.into()),
            core: self.0.core.clone(),
        };
        Ok((channel, on_behalf))
    }
}

/// Adds to a call the principal it is made for, and the term.
#[derive(Clone)]
pub struct OnBehalf {
    role: MetadataValue<Ascii>,
    name: MetadataValue<Ascii>,
    term: Option<MetadataValue<Ascii>>,
    core: Option<Core>,
}

impl Interceptor for OnBehalf {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if self.core.as_ref().is_some_and(|core| !core.leads_now()) {
            return Err(Status::unavailable(
                "this server may not lead any more, and calls no node",
            ));
        }
        let metadata = request.metadata_mut();
        if let Some(term) = &self.term {
            metadata.insert(LEADER_TERM, term.clone());
        }
        metadata.insert(CALLER_ROLE, self.role.clone());
        metadata.insert(CALLER_NAME, self.name.clone());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn channel() -> Channel {
        Endpoint::from_static("http://127.0.0.1:1").connect_lazy()
    }

    #[tokio::test]
    async fn older_tunnel_does_not_replace_a_newer_one() {
        let tunnels = Tunnels::default();
        tunnels.insert("n1", 2, 0, channel());
        tunnels.insert("n1", 1, 0, channel());
        assert_eq!(tunnels.number("n1"), 2);
        tunnels.insert("n1", 3, 0, channel());
        assert_eq!((tunnels.number("n1"), tunnels.number("n2")), (3, 0));
    }

    #[tokio::test]
    async fn server_calls_in_the_term_of_the_tunnel_and_only_while_it_leads() {
        use strata_store::{Condition, Memory};
        let settings = crate::core::CoreSettings {
            range: crate::core::Range::DEFAULT,
            lease: Duration::from_secs(10),
            placement: Default::default(),
            overcommit: Default::default(),
            alone: false,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let shutdown = tokio_util::sync::CancellationToken::new();
        let core = Core::open(Arc::new(Memory::new()), settings, shutdown.clone()).await;
        let core = core.unwrap();
        let lead = |revision| {
            let key = Condition::Unchanged("leader".into(), revision);
            core.set_lead(crate::core::Lead::Leading(Some(key)));
        };
        let soon = tokio::time::Instant::now() + Duration::from_secs(60);
        lead(7);
        core.renew_lead(soon);
        let tunnels = Tunnels::new(core.clone());
        tunnels.insert("n1", 1, core.term(), channel());
        let principal = Principal::server("operation");
        let call = || {
            let (_, mut on_behalf) = tunnels.reach("n1", &principal).unwrap();
            on_behalf.call(Request::new(()))
        };
        let term = |request: &Request<()>| request.metadata().get(LEADER_TERM).cloned().unwrap();
        assert_eq!(term(&call().unwrap()), "7");
        // It lost the lead, and won it again: the tunnel is of before.
        lead(9);
        assert_eq!(term(&call().unwrap()), "7");
        core.renew_lead(tokio::time::Instant::now());
        assert_eq!(call().unwrap_err().code(), tonic::Code::Unavailable);
        shutdown.cancel();
    }

    #[tokio::test]
    async fn call_through_a_dead_tunnel_is_retried() {
        let tunnels = Tunnels::default();
        tunnels.insert("n1", 1, 0, channel());
        let calls = AtomicUsize::new(0);
        let call = || async {
            calls.fetch_add(1, Ordering::Relaxed);
            if tunnels.number("n1") == 1 {
                // The machine is off: nothing answers, and nothing fails.
                std::future::pending::<()>().await;
            }
        };
        let opens = async {
            while calls.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            tunnels.insert("n1", 2, 0, channel());
        };
        tokio::join!(tunnels.newest("n1", call), opens);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
