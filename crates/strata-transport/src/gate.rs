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
use strata_audit::AuditLog;
use strata_identity::policy::{self, Access, Decision};
use strata_identity::{Caller, Clock, Credential, LiveTrust, Proof, Revocations, Tokens};
use strata_types::{Error, ErrorKind, Role};
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;

use crate::audit::Audit;
use crate::bearer::{Bearer, bearer};
use crate::guard::{Guard, GuardedBody, GuardedResponse, guarded};
use crate::{Peer, ProjectLookup, problem, problem_as};

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
    revocations: Arc<Revocations>,
    trust: Option<Arc<LiveTrust>>,
    clock: Clock,
    group: Option<(u32, Role)>,
    refusals: Arc<Refusals>,
    audit: Option<Arc<Audit>>,
    lookup: Option<Arc<dyn ProjectLookup>>,
}

impl Gate {
    /// A gate that accepts certificates, local root, and these API tokens.
    pub fn new(tokens: Option<Arc<Tokens>>, clock: Clock) -> Self {
        Self {
            tokens,
            revocations: Arc::default(),
            trust: None,
            clock,
            group: None,
            refusals: Arc::default(),
            audit: None,
            lookup: None,
        }
    }

    /// Writes down what is decided about requests that change something, read
    /// a secret or are refused.
    #[must_use]
    pub fn with_audit(mut self, log: Arc<AuditLog>) -> Self {
        self.audit = Some(Arc::new(Audit::new(log)));
        self
    }

    /// Asks this for the projects of objects that it writes down.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn ProjectLookup>) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// Lets users whose group is `gid` speak with `role` on the Unix socket.
    #[must_use]
    pub fn with_socket_group(mut self, gid: u32, role: Role) -> Self {
        self.group = Some((gid, role));
        self
    }

    /// Refuses certificates that are revoked there.
    #[must_use]
    pub fn with_revocations(mut self, revocations: Arc<Revocations>) -> Self {
        self.revocations = revocations;
        self
    }

    /// Refuses certificates of roots that are not trusted there, also on
    /// connections from before they were removed.
    #[must_use]
    pub fn with_trust(mut self, trust: Arc<LiveTrust>) -> Self {
        self.trust = Some(trust);
        self
    }

    /// The certificates that it refuses.
    pub fn revocations(&self) -> Arc<Revocations> {
        self.revocations.clone()
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
    ) -> Result<Option<Proven>, String> {
        let proven = match (bearer(headers), &self.tokens) {
            (Bearer::None, _) => match peer {
                Some(peer) => peer.caller.clone()?.map(|caller| {
                    let id = peer.certificate_id.clone();
                    Proven::new(caller, id.map(Credential::Certificate))
                }),
                None => None,
            },
            (Bearer::Malformed(reason), _) => return Err(reason.to_owned()),
            (Bearer::Token(_), None) => return Err("tokens are not accepted here".to_owned()),
            (Bearer::Token(token), Some(tokens)) => {
                let verified = tokens.verify_api_with_id(token);
                let (caller, id) = verified.map_err(|error| error.to_string())?;
                Some(Proven::new(caller, Some(Credential::Token { id })))
            }
        };
        if let Some(proven) = &proven {
            self.still_good(proven)?;
        }
        Ok(proven)
    }

    /// Whether a proof that was good holds: a connection may outlive the
    /// certificate it was opened with, and a stream its token.
    pub(crate) fn still_good(&self, proven: &Proven) -> Result<(), String> {
        let Caller {
            expires_at, proof, ..
        } = proven.caller;
        if expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(format!("the {proof} has expired"));
        }
        match (&proven.credential, &self.tokens) {
            (Some(Credential::Certificate(id)), _) => {
                let trust = self.trust.as_ref();
                if trust.is_some_and(|trust| !trust.trusts(&id.issuer)) {
                    return Err(format!(
                        "certificate {} of {} {} is of a root that was retired",
                        id.serial, id.role, id.name
                    ));
                }
                let revoked = self.revocations.check(id);
                revoked.map_err(|error| error.to_string())
            }
            (Some(Credential::Token { id }), Some(tokens)) => {
                tokens.check_id(id).map_err(|error| error.to_string())
            }
            (Some(Credential::Token { .. }), None) | (None, _) => Ok(()),
        }
    }

    /// What tells of changes to tokens, roots and revocations.
    pub(crate) fn changes(&self) -> Changes {
        Changes {
            tokens: self.tokens.as_ref().map(|tokens| tokens.subscribe()),
            trust: self.trust.as_ref().map(|trust| trust.subscribe()),
            revocations: self.revocations.subscribe(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The caller to hand on, or why the request goes no further.
    fn judge(
        &self,
        method: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<Proven>, Turned> {
        let (proven, reason) = match self.authenticate(headers, peer) {
            Ok(proven) => (proven, None),
            Err(reason) => (None, Some(reason)),
        };
        let caller = proven.as_ref().map(|proven| &proven.caller);
        match policy::decide(method, caller) {
            Decision::Allow => Ok(proven),
            Decision::Unauthenticated => {
                self.refusals
                    .unauthenticated
                    .fetch_add(1, Ordering::Relaxed);
                Err(Turned::away(unauthenticated(method, reason)))
            }
            Decision::Denied => {
                self.refusals.denied.fetch_add(1, Ordering::Relaxed);
                let error = denied(method, caller);
                // Strangers learn nothing of what is there.
                let known = caller.and_then(|_| wrong_verb(method).or_else(|| unknown(method)));
                let turned = match known {
                    Some(turned) => turned,
                    None => Turned::away(error),
                };
                let proven = proven.map(Box::new);
                Err(Turned { proven, ..turned })
            }
        }
    }
}

/// What tells of changes to what proofs depend on.
pub(crate) struct Changes {
    pub(crate) tokens: Option<watch::Receiver<()>>,
    pub(crate) trust: Option<watch::Receiver<()>>,
    pub(crate) revocations: watch::Receiver<()>,
}

/// A caller, and what has proven it.
#[derive(Clone)]
pub(crate) struct Proven {
    pub(crate) caller: Caller,
    /// None where it can neither end nor be revoked by itself: on a socket, or
    /// where the server vouches.
    pub(crate) credential: Option<Credential>,
}

impl Proven {
    fn new(caller: Caller, credential: Option<Credential>) -> Self {
        Self { caller, credential }
    }
}

/// A request that goes no further.
struct Turned {
    error: Error,
    /// What can be done with the path, where it is only the verb that is wrong.
    allow: Option<String>,
    /// Who sent it, where that is known.
    proven: Option<Box<Proven>>,
    /// There is no such call.
    unknown: bool,
}

impl Turned {
    fn away(error: Error) -> Self {
        Self {
            error,
            allow: None,
            proven: None,
            unknown: false,
        }
    }

    fn into_response(self, grpc: bool) -> Response<Body> {
        let allow = self.allow.and_then(|verbs| verbs.parse().ok());
        match allow {
            _ if grpc && self.unknown => {
                tonic::Status::unimplemented(self.error.to_string()).into_http()
            }
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
        proven: None,
        unknown: false,
    })
}

/// There is nothing of that name for anybody.
fn unknown(method: &str) -> Option<Turned> {
    if policy::access(method).is_some() {
        return None;
    }
    let path = method.split_once(' ').map_or(method, |(_, path)| path);
    let error = Error::not_found(format!("there is nothing at {}", short(path)));
    Some(Turned {
        unknown: true,
        ..Turned::away(error)
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

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
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
    S: Service<Request<GuardedBody<B>>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<GuardedResponse, Ready<Result<Response<Body>, Infallible>>>;

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
            Ok(proven) => {
                let (audit, lookup) = (self.gate.audit.as_ref(), self.gate.lookup.as_ref());
                let handled =
                    audit.map(|audit| audit.allowed(&request, grpc, proven.as_ref(), lookup));
                // Handlers have no use for the secret, and nor has their log.
                request.headers_mut().remove(AUTHORIZATION);
                if let Some(handled) = &handled {
                    // For the layer that writes it down.
                    request.extensions_mut().insert(handled.clone());
                }
                let recorder = handled
                    .as_ref()
                    .and_then(|handled| handled.session_recorder());
                if let Some(recorder) = recorder {
                    request.extensions_mut().insert(recorder);
                }
                let guard = Guard::new(&self.gate, proven.as_ref());
                if let Some(Proven { caller, credential }) = proven {
                    request.extensions_mut().insert(caller);
                    if let Some(credential) = credential {
                        request.extensions_mut().insert(credential);
                    }
                }
                let request = request.map(|body| GuardedBody::new(body, &guard));
                let answering = self.inner.call(request);
                let audited = async move {
                    let response = answering.await?;
                    if let Some(handled) = handled {
                        handled.answered(&response);
                    }
                    Ok(response)
                };
                Either::Left(guarded(audited, guard, grpc))
            }
            Err(turned) => {
                tracing::debug!(path, error = %turned.error, "refused");
                if let Some(audit) = &self.gate.audit {
                    let (proven, lookup) = (turned.proven.as_deref(), self.gate.lookup.as_ref());
                    audit.refused(&request, grpc, proven, &turned.error, lookup);
                }
                Either::Right(ready(Ok(turned.into_response(grpc))))
            }
        }
    }
}

impl<S> GateService<S> {
    fn judge<B>(&self, method: &str, request: &Request<B>) -> Result<Option<Proven>, Turned> {
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
