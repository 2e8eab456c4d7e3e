//! One connection, from its first byte of HTTP to its end.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use strata_types::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;
use tower_service::Service as _;

use crate::audited::AuditedService;
use crate::budget::{BudgetService, RequestHead, RequestSlots, TokenId, is_unauthenticated};
use crate::table::Connection;
use crate::{AuthLayer, Budgets, Limits, Peer};

/// What is buffered of an HTTP/1 connection, and the most a header may have.
const HTTP1_BUFFER: usize = 64 << 10;

/// The protocol that was agreed on.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// Detected from the first bytes.
    Either,
}

/// What all connections of a listener share.
pub(crate) struct Shared {
    pub(crate) app: axum::Router,
    pub(crate) auth: AuthLayer,
    pub(crate) limits: Limits,
    pub(crate) budgets: Budgets,
    /// Finish what is under way, take no more.
    pub(crate) drain: CancellationToken,
    pub(crate) stop: CancellationToken,
}

/// Serves requests until the peer is done, or we are. `accepted` is its place
/// among connections over TCP.
pub(crate) async fn serve<S>(
    stream: S,
    protocol: Protocol,
    peer: Peer,
    accepted: Option<Arc<Connection>>,
    shared: &Shared,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let unauthenticated = peer.is_unauthenticated_peer();
    let peer = Arc::new(peer);
    let budgets = &shared.budgets;
    let app = AuditedService::new(shared.app.clone());
    let places = RequestSlots::new(&shared.limits);
    let within = BudgetService::new(app, budgets.clone(), accepted.clone(), places);
    let authorized = shared.auth.layer(within);
    let source = accepted.as_ref().map(|accepted| accepted.source());
    let (began, mut begun) = watch::channel(false);
    let service = service_fn(|mut request: http::Request<Incoming>| {
        began.send_if_modified(|began| !std::mem::replace(began, true));
        let (token, head) = (TokenId::of(request.headers()), RequestHead::of(&request));
        let extensions = request.extensions_mut();
        extensions.insert(peer.clone());
        if let Some(token) = token {
            extensions.insert(token);
        }
        let (answer, budgets) = (authorized.clone().call(request), budgets.clone());
        async move {
            let answer = answer.await?;
            // Guessing is answered as slowly as anything without a proof.
            let over = match source.filter(|_| is_unauthenticated(&answer)) {
                Some(source) => budgets.admit_unauthenticated(source).err(),
                None => None,
            };
            Ok::<_, Infallible>(over.map_or(answer, |over| head.refusal(&over)))
        }
    });

    let is_node = matches!(&peer.caller, Ok(Some(caller)) if caller.role == Role::Node);
    let builder = builder(protocol, &shared.limits, is_node);
    let mut connection =
        pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let max_wait = shared.limits.header_timeout;
    let silent = async {
        match unauthenticated {
            true => tokio::time::timeout(max_wait, begun.wait_for(|begun| *begun))
                .await
                .is_err(),
            false => false,
        }
    };
    let mut silent = pin!(silent);
    let evicted = async {
        match &accepted {
            Some(accepted) => accepted.evicted().await,
            None => std::future::pending().await,
        }
    };
    let mut evicted = pin!(evicted);
    let mut waiting = true;
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, remote = ?peer.remote, "connection ended");
                }
                return;
            }
            too_long = silent.as_mut(), if waiting => {
                if too_long {
                    tracing::debug!(remote = ?peer.remote, "connection closed: no request received");
                    return;
                }
                waiting = false;
            }
            () = evicted.as_mut() => {
                tracing::debug!(remote = ?peer.remote, "idle connection closed for others");
                return;
            }
            () = shared.drain.cancelled(), if !draining => {
                connection.as_mut().graceful_shutdown();
                draining = true;
            }
        }
    }
}

fn builder(protocol: Protocol, limits: &Limits, is_node: bool) -> Builder<TokioExecutor> {
    let mut builder = match protocol {
        Protocol::Http1 => Builder::new(TokioExecutor::new()).http1_only(),
        Protocol::Http2 => Builder::new(TokioExecutor::new()).http2_only(),
        Protocol::Either => Builder::new(TokioExecutor::new()),
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HTTP1_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .max_concurrent_streams(limits.http2_streams)
        .max_send_buf_size(limits.send_buffer);
    // The tunnel of a node carries what all callers read of it.
    let factor = if is_node { 2 } else { 1 };
    builder
        .http2()
        .initial_stream_window_size(limits.stream_window * factor)
        .initial_connection_window_size(limits.connection_window * factor);
    builder
}

/// A handshake that did not come to its end, for the log.
pub(crate) fn handshake_failed(error: &io::Error, remote: std::net::SocketAddr) {
    tracing::debug!(%error, %remote, "TLS handshake failed");
}
