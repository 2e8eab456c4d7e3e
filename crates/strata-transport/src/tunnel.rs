//! A node's faces, served on a connection that the node itself opened to its
//! server: so a node behind NAT is reached too.
//!
//! Whoever is at the other end is the control plane: the node has checked its
//! certificate. It calls on behalf of somebody, whose role and name it says
//! with each request; the gate decides by those as everywhere else. On any
//! other connection these headers mean nothing.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use strata_identity::{Caller, Proof};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;
use tower_service::Service as _;

use crate::audited::AuditedService;
use crate::{Gate, Limits, Peer};

/// The header with the role of whom the server calls for.
pub const CALLER_ROLE: &str = "strata-caller-role";
/// The header with the name of whom the server calls for.
pub const CALLER_NAME: &str = "strata-caller-name";

/// Serves `app` on a tunnel until its other end is done, or `shutdown`.
pub async fn serve_tunnel<S>(io: S, app: axum::Router, gate: Gate, shutdown: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let gated = gate.layer(AuditedService::new(app));
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        let peer = Peer::over_tunnel(caller(request.headers_mut()));
        request.extensions_mut().insert(Arc::new(peer));
        gated.clone().call(request)
    });
    let limits = Limits::default();
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .max_concurrent_streams(limits.http2_streams)
        .serve_connection(TokioIo::new(io), service);
    tokio::select! {
        () = shutdown.cancelled() => {}
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "the tunnel ended");
            }
        }
    }
}

/// Whom the server calls for. What proves somebody elsewhere is taken away:
/// here it is the server that vouches.
fn caller(headers: &mut HeaderMap) -> Result<Caller, String> {
    headers.remove(AUTHORIZATION);
    let mut said = |header: &str| -> Result<String, String> {
        let twice = headers.get_all(header).iter().nth(1).is_some();
        let value = headers.remove(header).filter(|_| !twice);
        let text = value.as_ref().and_then(|value| value.to_str().ok());
        let text = text.ok_or_else(|| format!("the server does not say {header}"))?;
        Ok(text.to_owned())
    };
    let (role, name) = (said(CALLER_ROLE), said(CALLER_NAME));
    let (role, name) = (role?, name?);
    Ok(Caller {
        name: name.parse().map_err(|why| format!("{CALLER_NAME} {why}"))?,
        role: role
            .parse()
            .map_err(|why| format!("{CALLER_ROLE}: {why}"))?,
        projects: None,
        proof: Proof::Server,
        expires_at: None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use strata_types::Role;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_server_says_for_whom_it_calls() {
        let mut said = headers(&[
            (CALLER_ROLE, "operator"),
            (CALLER_NAME, "jo"),
            ("authorization", "Bearer x"),
        ]);
        let caller = caller(&mut said).unwrap();
        assert_eq!((caller.role, caller.name.as_str()), (Role::Operator, "jo"));
        assert!(said.is_empty(), "handlers see none of it: {said:?}");
    }

    #[test]
    fn without_a_clear_word_nobody_calls() {
        for said in [
            &[][..],
            &[(CALLER_ROLE, "admin")],
            &[(CALLER_NAME, "jo")],
            &[(CALLER_ROLE, "king"), (CALLER_NAME, "jo")],
            &[(CALLER_ROLE, "admin"), (CALLER_NAME, "a b")],
            &[
                (CALLER_ROLE, "viewer"),
                (CALLER_ROLE, "admin"),
                (CALLER_NAME, "jo"),
            ],
        ] {
            assert!(caller(&mut headers(said)).is_err(), "{said:?}");
        }
    }
}
