//! Listeners: connections in, bounded and timed; requests out to the router,
//! all of them through the auth layer; an end in order.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use strata_identity::Caller;
use strata_tasks::{log_panics, spawn_detached_on};
use strata_types::Role;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::accept_all;
use crate::authority::WithoutAuthority;
use crate::budget::CallerKey;
use crate::connection::{Protocol, Shared, handshake_failed, serve};
use crate::handshake::Handshakes;
use crate::socket::Socket;
use crate::table::Connection;
use crate::{AuthLayer, Budgets, CallerLimits, Limits, Peer};

/// Serves `app` over TLS until `shutdown`, with the default limits.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    app: axum::Router,
    auth: AuthLayer,
    shutdown: CancellationToken,
) {
    Serve::new(app, auth).tls(listener, tls, shutdown).await;
}

/// Serves `app` on a Unix socket until `shutdown`, with the default limits.
pub async fn serve_unix(
    listener: UnixListener,
    app: axum::Router,
    auth: AuthLayer,
    shutdown: CancellationToken,
) {
    Serve::new(app, auth).unix(listener, shutdown).await;
}

/// A router behind its auth layer, ready to be served.
pub struct Serve {
    app: axum::Router,
    auth: AuthLayer,
    limits: Limits,
    budgets: Option<Budgets>,
    nodes: Option<Handle>,
}

impl Serve {
    /// With the default limits.
    pub fn new(app: axum::Router, auth: AuthLayer) -> Self {
        Self {
            app,
            auth,
            limits: Limits::default(),
            budgets: None,
            nodes: None,
        }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With budgets that other listeners share, instead of its own.
    #[must_use]
    pub fn with_budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = Some(budgets);
        self
    }

    /// Accepts connections, and serves those of nodes, on this runtime, which
    /// does nothing else: so nodes are answered in time whatever load users
    /// cause. All other connections are served by the caller of [`Serve::tls`].
    #[must_use]
    pub fn with_nodes_on(mut self, runtime: Handle) -> Self {
        self.nodes = Some(runtime);
        self
    }

    /// Serves over TLS until `shutdown`, then lets requests under way finish
    /// for a while.
    pub async fn tls(
        self,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        shutdown: CancellationToken,
    ) {
        let people = Handle::current();
        let nodes = self.nodes.clone().unwrap_or_else(|| people.clone());
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let shared = self.shared();
        let acceptor = Arc::new(TlsListener {
            handshakes: Handshakes::new(tls, &shared.limits),
            shared: shared.clone(),
            connections: TaskTracker::new(),
            people,
            nodes: nodes.clone(),
        });
        let connections = acceptor.connections.clone();
        let accepting = spawn_detached_on(&nodes, "accept", async move {
            // Bound elsewhere, so it has to be made known to this runtime.
            let listener = listener.into_std().and_then(TcpListener::from_std);
            let listener = match listener {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "cannot listen"),
            };
            accept_all(&listener, &places, &shutdown, |(stream, remote), place| {
                let accepted = acceptor.shared.budgets.table().accept(remote.ip().into());
                let task = acceptor.clone().handshake(stream, remote, accepted, place);
                let task = log_panics("tls-handshake", task);
                acceptor.connections.spawn_on(task, &acceptor.nodes);
            })
            .await;
        });
        if let Err(error) = accepting.await
            && let Ok(panic) = error.try_into_panic()
        {
            // It goes on in the task that serves, which is supervised.
            std::panic::resume_unwind(panic);
        }
        end(&shared, &connections).await;
    }

    /// Serves on a Unix socket until `shutdown`; the socket is then removed.
    pub async fn unix(self, listener: UnixListener, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let shared = self.shared();
        let connections = TaskTracker::new();
        accept_all(&listener, &places, &shutdown, |stream, place| {
            let shared = shared.clone();
            connections.spawn(log_panics("unix-connection", async move {
                unix_connection(stream, &shared).await;
                drop(place);
            }));
        })
        .await;
        remove_socket(&listener);
        drop(listener);
        end(&shared, &connections).await;
    }

    fn shared(self) -> Arc<Shared> {
        let budgets = self
            .budgets
            .unwrap_or_else(|| Budgets::new(&self.limits, CallerLimits::default()));
        Arc::new(Shared {
            app: self.app,
            auth: self.auth,
            limits: self.limits,
            budgets,
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
        })
    }
}

/// Requests under way may finish; what does not in time is cut.
async fn end(shared: &Shared, connections: &TaskTracker) {
    shared.drain.cancel();
    connections.close();
    if tokio::time::timeout(shared.limits.drain, connections.wait())
        .await
        .is_err()
    {
        tracing::info!(
            open = connections.len(),
            "closing connections that did not finish"
        );
    }
    shared.stop.cancel();
    connections.wait().await;
}

/// Where connections of one listener come in, and where each goes.
struct TlsListener {
    handshakes: Handshakes,
    shared: Arc<Shared>,
    connections: TaskTracker,
    people: Handle,
    nodes: Handle,
}

impl TlsListener {
    /// Does the handshake, then hands the connection on to where it is served.
    /// `place` is released when the connection ends.
    async fn handshake(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        accepted: Connection,
        place: impl Send + 'static,
    ) {
        let local = stream.local_addr().ok();
        let handshake = async {
            let hello = self.handshakes.hello(Socket::new(stream)).await?;
            accepted.has_said_hello();
            self.handshakes.finish(hello, accepted.source()).await
        };
        let handshake = tokio::select! {
            () = self.shared.drain.cancelled() => return,
            () = accepted.evicted() => {
                return tracing::debug!(%remote, "handshake closed for others");
            }
            handshake = handshake => handshake,
        };
        let mut stream = match handshake {
            Ok(stream) => stream,
            Err(error) => return handshake_failed(&error, remote),
        };
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.cloned().map(CertificateDer::into_owned);
        let peer = Peer::over_tls(remote, local, certificate);
        let protocol = match session.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            Some(_) => Protocol::Http1,
            None => Protocol::Either,
        };
        if let Err(why) = self.admit(&peer, &accepted) {
            return tracing::debug!(%remote, why, "refused");
        }
        let on_nodes = matches!(&peer.caller, Ok(Some(caller)) if caller.role == Role::Node);
        let runtime = if on_nodes { &self.nodes } else { &self.people };
        let shared = self.shared.clone();
        let task = async move {
            if !on_nodes && let Err(error) = stream.get_mut().0.adopt() {
                return handshake_failed(&error, remote);
            }
            serve(stream, protocol, peer, Some(Arc::new(accepted)), &shared).await;
            drop(place);
        };
        let task = log_panics("tls-connection", task);
        self.connections.spawn_on(task, runtime);
    }

    /// Counts the connection with those it belongs to.
    fn admit(&self, peer: &Peer, accepted: &Connection) -> Result<(), &'static str> {
        let Ok(Some(caller)) = &peer.caller else {
            accepted.is_unauthenticated_peer();
            return Ok(());
        };
        let caller: &Caller = caller;
        let Some(limit) = self.shared.budgets.connections_of(caller) else {
            return Ok(());
        };
        let key = CallerKey::of(Some(caller), None, accepted.source());
        let counted = accepted.is_of(&key, limit);
        counted.map_err(|_| "too many connections of this caller, all in use")
    }
}

async fn unix_connection(stream: UnixStream, shared: &Shared) {
    let caller = match stream.peer_cred() {
        Ok(user) => shared.auth.socket_caller(user.uid(), user.gid()),
        Err(error) => Err(format!("cannot read the peer credentials: {error}")),
    };
    serve(
        WithoutAuthority::new(stream),
        Protocol::Either,
        Peer::over_unix(caller),
        None,
        shared,
    )
    .await;
}

/// While the listener still answers: no other process can have taken the path
/// yet.
fn remove_socket(listener: &UnixListener) {
    if let Ok(address) = listener.local_addr()
        && let Some(path) = address.as_pathname()
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::debug!(%error, path = %path.display(), "cannot remove the socket");
    }
}
