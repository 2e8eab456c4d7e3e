//! A node's APIs, served on a connection that the node itself opened to its
//! server: so a node behind NAT is reached too.
//!
//! The other end is the control plane: the node has checked its certificate. It
//! calls on behalf of a principal, whose role and name it sends with each
//! request; the auth layer decides by those as everywhere else. On any other
//! connection these headers mean nothing.
//!
//! The leader sends its term with each request. A server that was paused, and
//! led before another one, does not know that; the node does, and refuses what
//! is of an earlier term than the one it follows.

use std::sync::Arc;

use futures_util::future::Either;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use strata_identity::{Caller, Proof};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tower_layer::Layer as _;
use tower_service::Service as _;

use crate::audited::AuditedService;
use crate::{AuthLayer, Limits, Peer};

/// The header with the role of the principal that the server calls for.
pub const CALLER_ROLE: &str = "strata-caller-role";
/// The header with the name of the principal that the server calls for.
pub const CALLER_NAME: &str = "strata-caller-name";
/// The header with the term in which the server leads that calls.
pub const LEADER_TERM: &str = "strata-leader-term";

/// The leader term a node follows; calls of earlier terms are rejected.
pub trait FollowedTerm: Send + Sync + 'static {
    /// The term; 0 where there is one server only.
    fn followed_term(&self) -> u64;
}

/// Serves `app` on a tunnel until its other end is done, or `shutdown`.
pub async fn serve_tunnel<S>(
    io: S,
    app: axum::Router,
    auth: AuthLayer,
    term: Arc<dyn FollowedTerm>,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let authorized = auth.layer(AuditedService::new(app));
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        if let Err(why) = check_term(request.headers_mut(), term.followed_term()) {
            tracing::warn!(path = request.uri().path(), why, "tunnelled call rejected");
            let refused = Status::failed_precondition(why).into_http();
            return Either::Right(std::future::ready(Ok(refused)));
        }
        let peer = Peer::over_tunnel(caller(request.headers_mut()));
        request.extensions_mut().insert(Arc::new(peer));
        Either::Left(authorized.clone().call(request))
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
                tracing::debug!(%error, "tunnel closed");
            }
        }
    }
}

/// Refuses a call of an earlier term than the one that is followed. A server of
/// an earlier release sends none.
fn check_term(headers: &mut HeaderMap, followed: u64) -> Result<(), String> {
    let Some(said) = headers.remove(LEADER_TERM) else {
        return Ok(());
    };
    let term: Option<u64> = said.to_str().ok().and_then(|text| text.parse().ok());
    match term {
        Some(term) if term >= followed => Ok(()),
        Some(term) => Err(format!(
            "the calling server led term {term}; the current term is {followed}"
        )),
        None => Err(format!("{LEADER_TERM} is not a number")),
    }
}

/// The principal that the server calls for. Credentials that would count
/// elsewhere are removed: here the server vouches for the principal.
fn caller(headers: &mut HeaderMap) -> Result<Caller, String> {
    headers.remove(AUTHORIZATION);
    let mut said = |header: &str| -> Result<String, String> {
        let twice = headers.get_all(header).iter().nth(1).is_some();
        let value = headers.remove(header).filter(|_| !twice);
        let text = value.as_ref().and_then(|value| value.to_str().ok());
        let text = text.ok_or_else(|| format!("the server sent no {header}"))?;
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
    fn call_of_an_earlier_term_is_refused() {
        let check = |said: &'static str, followed| {
            check_term(&mut headers(&[(LEADER_TERM, said)]), followed)
        };
        assert!(check_term(&mut HeaderMap::new(), 7).is_ok(), "of before");
        assert!(check("7", 7).is_ok());
        assert!(check("8", 7).is_ok(), "it is followed in a moment");
        assert!(check("1", 0).is_ok());
        for (said, followed) in [("6", 7), ("0", 1), ("x", 0), ("", 0)] {
            assert!(check(said, followed).is_err(), "{said} {followed}");
        }
        let mut said = headers(&[(LEADER_TERM, "7")]);
        check_term(&mut said, 7).unwrap();
        assert!(said.is_empty(), "handlers see none of it");
    }

    struct Follows(u64);

    impl FollowedTerm for Follows {
        fn followed_term(&self) -> u64 {
            self.0
        }
    }

    #[tokio::test]
    async fn node_answers_a_deposed_leader_with_failed_precondition_and_runs_nothing() {
        let (near, far) = tokio::io::duplex(64 << 10);
        let ran = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = ran.clone();
        let run = move || async move {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            "ran"
        };
        let path = "/grpc.health.v1.Health/Check";
        let app = axum::Router::new().route(path, axum::routing::post(run));
        let auth = AuthLayer::new(
            strata_identity::policy::Policy::default(),
            None,
            strata_identity::Clock::system(),
        );
        let stop = CancellationToken::new();
        let served = serve_tunnel(far, app, auth, Arc::new(Follows(7)), stop.clone());
        let served = tokio::spawn(served);
        let io = TokioIo::new(near);
        let shook = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
        let (mut client, connection) = shook.unwrap();
        let connection = tokio::spawn(connection);
        let mut codes = Vec::new();
        for term in ["6", "7", "8"] {
            let request = http::Request::post(format!("http://node{path}"))
                .header("content-type", "application/grpc")
                .header(CALLER_ROLE, "admin")
                .header(CALLER_NAME, "jo")
                .header(LEADER_TERM, term);
            let answer = client.send_request(request.body(String::new()).unwrap());
            let answer = answer.await.unwrap();
            let code = answer.headers().get("grpc-status");
            codes.push(code.map(|code| code.to_str().unwrap().to_owned()));
        }
        let refused = (Status::failed_precondition("").code() as i32).to_string();
        assert_eq!(codes, [Some(refused), None, None]);
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 2);
        stop.cancel();
        served.await.unwrap();
        connection.abort();
    }

    #[test]
    fn unclear_tunnel_headers_name_no_caller() {
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
