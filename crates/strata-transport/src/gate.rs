//! The gate: every request, gRPC or HTTP, is asked who sends it and whether
//! that caller may, before it reaches a handler. There is no way around it:
//! the listeners put it in front of whatever router they are given.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use futures_util::future::{Either, Ready, ready};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Request, Response, StatusCode};
use strata_api::status_from_error;
use strata_identity::policy::{self, Access, Decision};
use strata_identity::{Caller, Clock, Proof, Tokens};
use strata_types::{Error, ErrorKind, Role};
use tower_layer::Layer;
use tower_service::Service;

use crate::bearer::{Bearer, bearer};
use crate::{Peer, problem, problem_as};

/// How many requests were refused, since the start.
#[derive(Debug, Default)]
pub struct Refusals {
    /// For want of an identity.
    pub unauthenticated: AtomicU64,
    /// For want of the right role.
    pub denied: AtomicU64,
}

/// Decides about every request. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    tokens: Option<Arc<Tokens>>,
    clock: Clock,
    group: Option<(u32, Role)>,
    refusals: Arc<Refusals>,
}

impl Gate {
    /// A gate that accepts certificates, local root, and these API tokens.
    pub fn new(tokens: Option<Arc<Tokens>>, clock: Clock) -> Self {
        Self {
            tokens,
            clock,
            group: None,
            refusals: Arc::default(),
        }
    }

    /// Lets users whose group is `gid` speak with `role` on the Unix socket.
    #[must_use]
    pub fn with_socket_group(mut self, gid: u32, role: Role) -> Self {
        self.group = Some((gid, role));
        self
    }

    /// How many requests it refused.
    pub fn refusals(&self) -> Arc<Refusals> {
        self.refusals.clone()
    }

    /// Who a user on the Unix socket is: root, or whoever runs the daemon, is
    /// its admin; a member of the group has the group's role.
    pub(crate) fn socket_caller(&self, uid: u32, gid: u32) -> Result<Caller, String> {
        let (name, role) = match self.group {
            _ if uid == 0 || uid == rustix::process::geteuid().as_raw() => {
                ("root".to_owned(), Role::Admin)
            }
            Some((group, role)) if group == gid => (format!("uid-{uid}"), role),
            _ => return Err(format!("user {uid} may not use this socket")),
        };
        Ok(Caller {
            name: name.parse().map_err(|error| format!("{error}"))?,
            role,
            projects: None,
            proof: Proof::Socket,
            expires_at: None,
        })
    }

    /// Who sends a request. A token, where one is sent, is what counts: a
    /// wrong one does not fall back to the certificate beside it.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<Caller>, String> {
        let caller = match (bearer(headers), &self.tokens) {
            (Bearer::None, _) => match peer {
                Some(peer) => peer.caller.clone()?,
                None => None,
            },
            (Bearer::Malformed(reason), _) => return Err(reason.to_owned()),
            (Bearer::Token(_), None) => return Err("tokens are not accepted here".to_owned()),
            (Bearer::Token(token), Some(tokens)) => Some(
                tokens
                    .verify_api(token)
                    .map_err(|error| error.to_string())?,
            ),
        };
        match caller {
            // A connection may outlive the certificate it was opened with.
            Some(Caller {
                expires_at: Some(end),
                proof,
                ..
            }) if end <= self.clock.now() => Err(format!("the {proof} has expired")),
            caller => Ok(caller),
        }
    }

    /// The caller to hand on, or why the request goes no further.
    fn judge(
        &self,
        method: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<Caller>, Turned> {
        let (caller, reason) = match self.authenticate(headers, peer) {
            Ok(caller) => (caller, None),
            Err(reason) => (None, Some(reason)),
        };
        match policy::decide(method, caller.as_ref()) {
            Decision::Allow => Ok(caller),
            Decision::Unauthenticated => {
                self.refusals
                    .unauthenticated
                    .fetch_add(1, Ordering::Relaxed);
                Err(Turned::away(unauthenticated(method, reason)))
            }
            Decision::Denied => {
                self.refusals.denied.fetch_add(1, Ordering::Relaxed);
                let error = denied(method, caller.as_ref());
                // Strangers learn nothing of what is there.
                Err(match caller.and_then(|_| wrong_verb(method)) {
                    Some(turned) => turned,
                    None => Turned::away(error),
                })
            }
        }
    }
}

/// A request that goes no further.
struct Turned {
    error: Error,
    /// What can be done with the path, where it is only the verb that is wrong.
    allow: Option<String>,
}

impl Turned {
    fn away(error: Error) -> Self {
        Self { error, allow: None }
    }

    fn into_response(self, grpc: bool) -> Response<Body> {
        let allow = self.allow.and_then(|verbs| verbs.parse().ok());
        match allow {
            _ if grpc => status_from_error(&self.error).into_http(),
            None => problem(&self.error),
            Some(allow) => {
                let mut response = problem_as(StatusCode::METHOD_NOT_ALLOWED, &self.error);
                response.headers_mut().insert(ALLOW, allow);
                response
            }
        }
    }
}

/// The path is known, and this is not done with it.
fn wrong_verb(method: &str) -> Option<Turned> {
    let (verb, path) = method.split_once(' ')?;
    let verbs = policy::verbs(path);
    if verbs.is_empty() || verbs.contains(&verb) || verb == "HEAD" && verbs.contains(&"GET") {
        return None;
    }
    let verbs = verbs.join(", ");
    let why = format!("{} cannot be done; {verbs} can", short(method));
    Some(Turned {
        error: Error::new(ErrorKind::Invalid, why),
        allow: Some(verbs),
    })
}

fn unauthenticated(method: &str, reason: Option<String>) -> Error {
    let reason = reason.unwrap_or_else(|| format!("{} needs to know who calls", short(method)));
    Error::new(ErrorKind::Unauthenticated, reason).with_hint(
        "present a client certificate of this server's CA, or send \"Authorization: Bearer TOKEN\"",
    )
}

fn denied(method: &str, caller: Option<&Caller>) -> Error {
    let method = short(method);
    let message = match (policy::access(method), caller) {
        (Some(Access::Roles(roles)), Some(Caller { name, role, .. })) => format!(
            "{role} {name:?} may not call {method}; it takes the role {roles}",
            name = name.as_str(),
            roles = policy::roles_in_words(roles),
        ),
        _ => format!("nothing may be called at {method}"),
    };
    Error::new(ErrorKind::PermissionDenied, message)
}

/// As much of a path as a message should repeat.
fn short(method: &str) -> &str {
    let end = (0..=method.len().min(200))
        .rev()
        .find(|at| method.is_char_boundary(*at));
    &method[..end.unwrap_or(0)]
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

impl<S> Layer<S> for Gate {
    type Service = GateService<S>;

    fn layer(&self, inner: S) -> GateService<S> {
        GateService {
            gate: self.clone(),
            inner,
        }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub struct GateService<S> {
    gate: Gate,
    inner: S,
}

impl<S, B> Service<Request<B>> for GateService<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let grpc = is_grpc(request.headers());
        let path = request.uri().path();
        // The two halves of the policy do not overlap, so what a request
        // claims to be cannot change what it needs.
        let judged = if grpc {
            self.judge(path, &request)
        } else {
            self.judge(&format!("{} {path}", request.method()), &request)
        };
        match judged {
            Ok(caller) => {
                // Handlers have no use for the secret, and nor has their log.
                request.headers_mut().remove(AUTHORIZATION);
                if let Some(caller) = caller {
                    request.extensions_mut().insert(caller);
                }
                Either::Left(self.inner.call(request))
            }
            Err(turned) => {
                tracing::debug!(path, error = %turned.error, "refused");
                Either::Right(ready(Ok(turned.into_response(grpc))))
            }
        }
    }
}

impl<S> GateService<S> {
    fn judge<B>(&self, method: &str, request: &Request<B>) -> Result<Option<Caller>, Turned> {
        let peer = request.extensions().get::<Arc<Peer>>();
        self.gate
            .judge(method, request.headers(), peer.map(Arc::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_knows_root_its_own_user_and_the_group_and_refuses_others() {
        let gate = Gate::new(None, Clock::system()).with_socket_group(77, Role::Operator);
        let own = rustix::process::geteuid().as_raw();
        let role = |uid, gid| gate.socket_caller(uid, gid).map(|caller| caller.role).ok();
        assert_eq!(role(0, 5), Some(Role::Admin));
        assert_eq!(role(own, 5), Some(Role::Admin));
        assert_eq!(role(own + 1000, 77), Some(Role::Operator));
        assert_eq!(role(own + 1000, 5), None);
        let member = gate.socket_caller(own + 1000, 77).unwrap();
        assert_eq!(member.name.as_str(), format!("uid-{}", own + 1000));
        let none = Gate::new(None, Clock::system());
        assert!(none.socket_caller(own + 1000, 77).is_err());
    }

    #[test]
    fn a_message_repeats_no_more_of_a_path_than_is_good() {
        let long = format!("/{}", "ü".repeat(500));
        assert!(denied(&long, None).message().len() < 300);
    }
}
