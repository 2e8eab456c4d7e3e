//! The auth layer: authenticates and authorizes every request, gRPC or HTTP,
//! before it reaches a handler. It cannot be bypassed: the listeners put it in
//! front of every router they serve.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use futures_util::future::{Either, Ready, ready};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Request, Response, StatusCode};
use jiff::Timestamp;
use strata_api::status_from_error;
use strata_audit::AuditLog;
use strata_identity::policy::{self, Access, Decision, Policy};
use strata_identity::{Caller, Clock, Credential, LiveTrust, Proof, Revocations, Tokens};
use strata_types::{Error, ErrorKind, Label, Role};
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
    pub unauthenticated: AtomicU64,
    /// Requests without the required role.
    pub denied: AtomicU64,
}

/// Decides about every request. Cheap to clone.
#[derive(Clone)]
pub struct AuthLayer {
    policy: Policy,
    tokens: Option<Arc<Tokens>>,
    revocations: Arc<Revocations>,
    trust: Option<Arc<LiveTrust>>,
    clock: Clock,
    group: Option<(u32, Role)>,
    refusals: Arc<Refusals>,
    audit: Option<Arc<Audit>>,
    lookup: Option<Arc<dyn ProjectLookup>>,
}

impl AuthLayer {
    /// An auth layer that decides by this policy, and accepts certificates,
    /// local root, and these API tokens.
    pub fn new(policy: Policy, tokens: Option<Arc<Tokens>>, clock: Clock) -> Self {
        Self {
            policy,
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

    /// Records what is decided about requests that change something, read a
    /// secret or are refused.
    #[must_use]
    pub fn with_audit(mut self, log: Arc<AuditLog>) -> Self {
        self.audit = Some(Arc::new(Audit::new(self.policy, log)));
        self
    }

    /// Accepts no tokens: certificates and local root alone.
    #[must_use]
    pub fn without_tokens(mut self) -> Self {
        self.tokens = None;
        self
    }

    /// Looks up the projects of the objects that it records with this.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn ProjectLookup>) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// Lets users whose group is `gid` call with `role` on the Unix socket.
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

    /// Caller of a connection on the Unix socket: root and the user of the
    /// daemon are admins; a member of the group has the role of the group.
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

    /// Authenticates a request. A token, where one is sent, is what counts: a
    /// wrong one does not fall back to the certificate beside it.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<Authenticated>, String> {
        let authenticated = match (bearer(headers), &self.tokens) {
            (Bearer::None, _) => match peer {
                Some(peer) => peer.caller.clone()?.map(|caller| {
                    let id = peer.certificate_id.clone();
                    Authenticated::new(caller, id.map(Credential::Certificate))
                }),
                None => None,
            },
            (Bearer::Malformed(reason), _) => return Err(reason.to_owned()),
            (Bearer::Token(_), None) => return Err("tokens are not accepted here".to_owned()),
            (Bearer::Token(token), Some(tokens)) => {
                let verified = tokens.verify_api_with_id(token);
                let (caller, id) = verified.map_err(|error| error.to_string())?;
                Some(Authenticated::new(caller, Some(Credential::Token { id })))
            }
        };
        if let Some(authenticated) = &authenticated {
            self.check_valid(authenticated)?;
        }
        Ok(authenticated)
    }

    /// Whether a proof that was good holds: a connection may outlive the
    /// certificate it was opened with, and a stream its token.
    pub(crate) fn check_valid(&self, authenticated: &Authenticated) -> Result<(), String> {
        let Caller {
            expires_at, proof, ..
        } = authenticated.caller;
        if expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(format!("the {proof} has expired"));
        }
        match (&authenticated.credential, &self.tokens) {
            (Some(Credential::Certificate(id)), _) => {
                let trust = self.trust.as_ref();
                if trust.is_some_and(|trust| !trust.trusts(&id.issuer)) {
                    return Err(format!(
                        "certificate {} of {} {} was issued by a retired CA root",
                        id.serial, id.role, id.name
                    ));
                }
                let revoked = self.revocations.check(id);
                revoked.map_err(|error| error.to_string())
            }
            (Some(Credential::Token { id }), Some(tokens)) => {
                let made = tokens.check_id(id).map_err(|error| error.to_string())?;
                self.check_projects(&authenticated.caller, made)
            }
            (Some(Credential::Token { .. }), None) | (None, _) => Ok(()),
        }
    }

    /// Whether the projects that a token of this age is limited to are the ones
    /// of these names still.
    fn check_projects(&self, caller: &Caller, made: Timestamp) -> Result<(), String> {
        let (Some(projects), Some(lookup)) = (&caller.projects, &self.lookup) else {
            return Ok(());
        };
        let is_another = |project: &&Label| {
            let succeeds_at = lookup.succeeds_at(project);
            succeeds_at.is_some_and(|at| made <= at)
        };
        match projects.iter().find(is_another) {
            None => Ok(()),
            Some(project) => Err(format!(
                "the token is limited to a project {project} that was deleted"
            )),
        }
    }

    /// Subscriptions to changes of tokens, roots and revocations.
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
    fn authorize(
        &self,
        method: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<Authenticated>, Rejection> {
        let (authenticated, reason) = match self.authenticate(headers, peer) {
            Ok(authenticated) => (authenticated, None),
            Err(reason) => (None, Some(reason)),
        };
        let caller = authenticated
            .as_ref()
            .map(|authenticated| &authenticated.caller);
        match self.policy.decide(method, caller) {
            Decision::Allow => Ok(authenticated),
            Decision::Unauthenticated => {
                self.refusals
                    .unauthenticated
                    .fetch_add(1, Ordering::Relaxed);
                let takes_tokens = self.tokens.is_some();
                Err(Rejection::new(unauthenticated(
                    method,
                    reason,
                    takes_tokens,
                )))
            }
            Decision::Denied => {
                self.refusals.denied.fetch_add(1, Ordering::Relaxed);
                let error = denied(self.policy, method, caller);
                // Unauthenticated clients learn nothing of what is there.
                let known = caller.and_then(|_| {
                    let wrong = wrong_verb(self.policy, method);
                    wrong.or_else(|| unknown(self.policy, method))
                });
                let rejection = match known {
                    Some(rejection) => rejection,
                    None => Rejection::new(error),
                };
                let authenticated = authenticated.map(Box::new);
                Err(Rejection {
                    authenticated,
                    ..rejection
                })
            }
        }
    }
}

/// Subscriptions to changes that can invalidate a credential.
pub(crate) struct Changes {
    pub(crate) tokens: Option<watch::Receiver<()>>,
    pub(crate) trust: Option<watch::Receiver<()>>,
    pub(crate) revocations: watch::Receiver<()>,
}

/// A caller and its credential.
#[derive(Clone)]
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    /// None where it can neither end nor be revoked by itself: on a socket, or
    /// where the server vouches.
    pub(crate) credential: Option<Credential>,
}

impl Authenticated {
    fn new(caller: Caller, credential: Option<Credential>) -> Self {
        Self { caller, credential }
    }
}

/// A request that goes no further.
struct Rejection {
    error: Error,
    /// What can be done with the path, where it is only the verb that is wrong.
    allow: Option<String>,
    /// Its authenticated caller, where that is known.
    authenticated: Option<Box<Authenticated>>,
    /// There is no such call.
    unknown: bool,
}

impl Rejection {
    fn new(error: Error) -> Self {
        Self {
            error,
            allow: None,
            authenticated: None,
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
fn wrong_verb(policy: Policy, method: &str) -> Option<Rejection> {
    let (verb, path) = method.split_once(' ')?;
    let verbs = policy.verbs(path);
    if verbs.is_empty() || verbs.contains(&verb) || verb == "HEAD" && verbs.contains(&"GET") {
        return None;
    }
    let verbs = verbs.join(", ");
    let why = format!("{} is not allowed; allowed: {verbs}", short(method));
    Some(Rejection {
        error: Error::new(ErrorKind::Invalid, why),
        allow: Some(verbs),
        authenticated: None,
        unknown: false,
    })
}

/// The endpoint does not exist.
fn unknown(policy: Policy, method: &str) -> Option<Rejection> {
    if policy.access(method).is_some() {
        return None;
    }
    let path = method.split_once(' ').map_or(method, |(_, path)| path);
    let error = Error::not_found(format!("no such endpoint: {}", short(path)));
    Some(Rejection {
        unknown: true,
        ..Rejection::new(error)
    })
}

fn unauthenticated(method: &str, reason: Option<String>, takes_tokens: bool) -> Error {
    let reason =
        reason.unwrap_or_else(|| format!("no credentials presented for {}", short(method)));
    Error::new(ErrorKind::Unauthenticated, reason).with_hint(match takes_tokens {
        true => {
            "present a client certificate of this server's CA, or send \"Authorization: Bearer TOKEN\""
        }
        false => "present a client certificate of this node's CA; API tokens are for the server",
    })
}

fn denied(policy: Policy, method: &str, caller: Option<&Caller>) -> Error {
    let method = short(method);
    let message = match (policy.access(method), caller) {
        (Some(Access::Roles(roles)), Some(Caller { name, role, .. })) => format!(
            "{role} {name:?} may not call {method}; it requires the role {roles}",
            name = name.as_str(),
            roles = policy::roles_in_words(roles),
        ),
        _ => format!("no such endpoint: {method}"),
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

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService {
            auth: self.clone(),
            inner,
        }
    }
}

/// A service behind the auth layer.
#[derive(Clone)]
pub struct AuthService<S> {
    auth: AuthLayer,
    inner: S,
}

impl<S, B> Service<Request<B>> for AuthService<S>
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
        let decision = if grpc {
            self.authorize(path, &request)
        } else {
            self.authorize(&format!("{} {path}", request.method()), &request)
        };
        match decision {
            Ok(authenticated) => {
                let (audit, lookup) = (self.auth.audit.as_ref(), self.auth.lookup.as_ref());
                let handled = audit
                    .map(|audit| audit.allowed(&request, grpc, authenticated.as_ref(), lookup));
                // Handlers have no use for the secret, and nor has their log.
                request.headers_mut().remove(AUTHORIZATION);
                if let Some(handled) = &handled {
                    // For the layer that records it.
                    request.extensions_mut().insert(handled.clone());
                }
                let recorder = handled
                    .as_ref()
                    .and_then(|handled| handled.session_recorder());
                if let Some(recorder) = recorder {
                    request.extensions_mut().insert(recorder);
                }
                let guard = Guard::new(&self.auth, authenticated.as_ref());
                if let Some(Authenticated { caller, credential }) = authenticated {
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
            Err(rejection) => {
                tracing::debug!(path, error = %rejection.error, "refused");
                if let Some(audit) = &self.auth.audit {
                    let (authenticated, lookup) = (
                        rejection.authenticated.as_deref(),
                        self.auth.lookup.as_ref(),
                    );
                    audit.refused(&request, grpc, authenticated, &rejection.error, lookup);
                }
                Either::Right(ready(Ok(rejection.into_response(grpc))))
            }
        }
    }
}

impl<S> AuthService<S> {
    fn authorize<B>(
        &self,
        method: &str,
        request: &Request<B>,
    ) -> Result<Option<Authenticated>, Rejection> {
        let peer = request.extensions().get::<Arc<Peer>>();
        self.auth
            .authorize(method, request.headers(), peer.map(Arc::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_knows_root_its_own_user_and_the_group_and_refuses_others() {
        let auth = AuthLayer::new(Policy::default(), None, Clock::system())
            .with_socket_group(77, Role::Operator);
        let own = rustix::process::geteuid().as_raw();
        let role = |uid, gid| auth.socket_caller(uid, gid).map(|caller| caller.role).ok();
        assert_eq!(role(0, 5), Some(Role::Admin));
        assert_eq!(role(own, 5), Some(Role::Admin));
        assert_eq!(role(own + 1000, 77), Some(Role::Operator));
        assert_eq!(role(own + 1000, 5), None);
        let member = auth.socket_caller(own + 1000, 77).unwrap();
        assert_eq!(member.name.as_str(), format!("uid-{}", own + 1000));
        let none = AuthLayer::new(Policy::default(), None, Clock::system());
        assert!(none.socket_caller(own + 1000, 77).is_err());
    }

    #[test]
    fn a_message_repeats_no_more_of_a_path_than_is_good() {
        let long = format!("/{}", "ü".repeat(500));
        assert!(denied(Policy::default(), &long, None).message().len() < 300);
    }
}
