//! Listeners: connections in, bounded and timed; requests out to the router,
//! all of them through the gate; an end in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::accept_all;
use crate::connection::{Protocol, Shared, handshake_failed, serve};
use crate::{Gate, Limits, Peer};

/// Serves `app` over TLS until `shutdown`, with the default limits.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    app: axum::Router,
    gate: Gate,
    shutdown: CancellationToken,
) {
    Serve::new(app, gate).tls(listener, tls, shutdown).await;
}

/// Serves `app` on a Unix socket until `shutdown`, with the default limits.
pub async fn serve_unix(
    listener: UnixListener,
    app: axum::Router,
    gate: Gate,
    shutdown: CancellationToken,
) {
    Serve::new(app, gate).unix(listener, shutdown).await;
}

/// A router behind its gate, ready to be served.
pub struct Serve {
    app: axum::Router,
    gate: Gate,
    limits: Limits,
}

impl Serve {
    /// With the default limits.
    pub fn new(app: axum::Router, gate: Gate) -> Self {
        Self {
            app,
            gate,
            limits: Limits::default(),
        }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
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
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let door = Arc::new(TlsDoor {
            acceptor: tls.into(),
            handshakes: Semaphore::new(self.limits.handshakes),
            strangers: Semaphore::new(self.limits.strangers),
            shared: self.shared(),
        });
        let connections = TaskTracker::new();
        accept_all(&listener, &places, &shutdown, |(stream, remote), place| {
            let door = door.clone();
            connections.spawn(async move {
                door.connection(stream, remote).await;
                drop(place);
            });
        })
        .await;
        drop(listener);
        end(&door.shared, &connections).await;
    }

    /// Serves on a Unix socket until `shutdown`; the socket is then removed.
    pub async fn unix(self, listener: UnixListener, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let shared = Arc::new(self.shared());
        let connections = TaskTracker::new();
        accept_all(&listener, &places, &shutdown, |stream, place| {
            let shared = shared.clone();
            connections.spawn(async move {
                unix_connection(stream, &shared).await;
                drop(place);
            });
        })
        .await;
        remove_socket(&listener);
        drop(listener);
        end(&shared, &connections).await;
    }

    fn shared(self) -> Shared {
        Shared {
            app: self.app,
            gate: self.gate,
            limits: self.limits,
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
        }
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

struct TlsDoor {
    acceptor: TlsAcceptor,
    handshakes: Semaphore,
    strangers: Semaphore,
    shared: Shared,
}

impl TlsDoor {
    async fn connection(&self, stream: TcpStream, remote: SocketAddr) {
        let shared = &self.shared;
        let handshake = tokio::select! {
            () = shared.drain.cancelled() => return,
            handshake = tokio::time::timeout(shared.limits.handshake_timeout, self.handshake(stream)) => handshake,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return handshake_failed(&error, remote),
            Err(_) => return handshake_failed(&io::ErrorKind::TimedOut.into(), remote),
        };
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let peer = Peer::over_tls(remote, certificate.cloned().map(CertificateDer::into_owned));
        let protocol = match session.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            Some(_) => Protocol::Http1,
            None => Protocol::Either,
        };
        let _place = match peer.is_stranger() {
            false => None,
            true => match self.strangers.try_acquire() {
                Ok(place) => Some(place),
                Err(_) => {
                    return tracing::debug!(%remote, "too many connections without a certificate");
                }
            },
        };
        serve(stream, protocol, peer, shared).await;
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        // The semaphore is never closed.
        let _turn = self.handshakes.acquire().await.map_err(io::Error::other)?;
        self.acceptor.accept(stream).await
    }
}

async fn unix_connection(stream: UnixStream, shared: &Shared) {
    let caller = match stream.peer_cred() {
        Ok(user) => shared.gate.socket_caller(user.uid(), user.gid()),
        Err(error) => Err(format!("the kernel does not say who calls: {error}")),
    };
    serve(stream, Protocol::Either, Peer::over_unix(caller), shared).await;
}

/// While it still answers: nobody else can have taken the path yet.
fn remove_socket(listener: &UnixListener) {
    if let Ok(address) = listener.local_addr()
        && let Some(path) = address.as_pathname()
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::debug!(%error, path = %path.display(), "the socket could not be removed");
    }
}
