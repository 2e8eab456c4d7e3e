//! What is written into the audit log: each decision of the auth layer that lets a
//! request change something or read a secret, before the request reaches its
//! handler, with the object it is about and that one's project, and each refusal, by the auth layer or by the handler, as far as one source may
//! cause lines.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use strata_audit::{AuditLog, Decision, LineCharge, Outcome, RefusalLimiter, SessionRecorder};
use strata_identity::Credential;
use strata_identity::policy::Policy;
use strata_types::{Error, ErrorKind, Label};

use crate::auth::Authenticated;
use crate::recent_reads::RecentReads;
use crate::subject::{self, Subject, bounded};
use crate::{Peer, ProjectLookup};

/// The audit log of an auth layer.
#[derive(Debug)]
pub(crate) struct Audit {
    policy: Policy,
    log: Arc<AuditLog>,
    refusals: RefusalLimiter,
    reads: RecentReads,
}

impl Audit {
    pub(crate) fn new(policy: Policy, log: Arc<AuditLog>) -> Self {
        Self {
            policy,
            log,
            refusals: RefusalLimiter::default(),
            reads: RecentReads::default(),
        }
    }

    /// A request that may go on to its handler, which may still refuse it.
    /// The line is written by [`AuditedCall::allow`].
    pub(crate) fn allowed<B>(
        self: &Arc<Self>,
        request: &Request<B>,
        grpc: bool,
        authenticated: Option<&Authenticated>,
        lookup: Option<&Arc<dyn ProjectLookup>>,
    ) -> Arc<AuditedCall> {
        let call = call_of(request, grpc);
        let audited = self.policy.is_audited(&call);
        let decision = decision(request, call, authenticated, Outcome::Allowed);
        Arc::new(AuditedCall {
            audit: self.clone(),
            decision,
            source: address_of(request),
            query: request.uri().query().map(str::to_owned),
            limited_to: authenticated.and_then(|it| it.caller.projects.clone()),
            audited,
            lookup: lookup.cloned(),
            account: authenticated.map(account_of),
            subject: OnceLock::new(),
            charge: LineCharge::default(),
        })
    }

    /// A request goes no further.
    pub(crate) fn refused<B>(
        &self,
        request: &Request<B>,
        grpc: bool,
        authenticated: Option<&Authenticated>,
        why: &Error,
        lookup: Option<&Arc<dyn ProjectLookup>>,
    ) {
        let outcome = match why.kind() {
            ErrorKind::Unauthenticated => Outcome::Unauthenticated,
            _ => Outcome::Denied,
        };
        let mut decision = decision(request, call_of(request, grpc), authenticated, outcome);
        decision.reason = Some(why.message().to_owned());
        // The body of a request is not read when its caller may not call.
        let lookup = lookup.filter(|_| authenticated.is_some()).map(Arc::as_ref);
        set(
            &mut decision,
            Subject::of(self.policy, request, grpc, &[], lookup),
        );
        let account = authenticated.map(account_of);
        self.append_refusal(decision, account.as_deref(), address_of(request));
    }

    /// How many bytes were written.
    fn append_refusal(
        &self,
        decision: Decision,
        account: Option<&str>,
        source: Option<IpAddr>,
    ) -> u64 {
        let suppressed = match account {
            Some(account) => self.refusals.admit_caller(account),
            None => self.refusals.admit(source),
        };
        suppressed.map_or(0, |suppressed| self.append(decision, suppressed))
    }

    fn append(&self, decision: Decision, suppressed: u64) -> u64 {
        self.log.append(shortened(decision), suppressed)
    }
}

/// With as much of what its caller made up as is written.
fn shortened(mut decision: Decision) -> Decision {
    decision.call = bounded(&decision.call);
    decision.reason = decision.reason.as_deref().map(bounded);
    decision
}

fn set(decision: &mut Decision, subject: Subject) {
    (decision.object, decision.project) = (subject.object, subject.project);
}

/// A request that the auth layer handed on, until its handler has answered.
pub(crate) struct AuditedCall {
    audit: Arc<Audit>,
    decision: Decision,
    source: Option<IpAddr>,
    query: Option<String>,
    /// The projects of a caller that is limited to some.
    limited_to: Option<Vec<Label>>,
    audited: bool,
    lookup: Option<Arc<dyn ProjectLookup>>,
    /// By what its caller's refusals and reads are counted.
    account: Option<String>,
    /// Known once its line is written.
    subject: OnceLock<Subject>,
    /// Whose account its lines are charged to, once it is within budget.
    charge: LineCharge,
}

impl AuditedCall {
    pub(crate) fn is_audited(&self) -> bool {
        self.audited
    }

    /// What its lines are charged by.
    pub(crate) fn charge(&self) -> &LineCharge {
        &self.charge
    }

    /// Whether the body has to be read to know what the request is about.
    pub(crate) fn reads_body(&self, method: &str, path: &str, grpc: bool) -> bool {
        subject::is_in_body(self.audit.policy, method, path, grpc)
    }

    /// Records that the request goes to its handler now, and what it is about,
    /// as far as this beginning of its body shows it.
    pub(crate) fn allow<B>(&self, request: &Request<B>, grpc: bool, body: &[u8]) {
        let (policy, lookup) = (self.audit.policy, self.lookup.as_deref());
        let subject = Subject::of(policy, request, grpc, body, lookup);
        if self.subject.set(subject).is_ok() {
            self.charge.charge(self.audit.append(self.about(), 0));
        }
    }

    /// The decision with what it is about.
    fn about(&self) -> Decision {
        let mut decision = self.decision.clone();
        let (query, lookup) = (self.query.as_deref(), self.lookup.as_deref());
        let by_path = || Subject::of_call(self.audit.policy, &decision.call, query, lookup);
        let subject = self.subject.get().cloned().unwrap_or_else(by_path);
        set(&mut decision, subject);
        decision
    }

    /// With what a handler records the sessions of the request.
    pub(crate) fn session_recorder(&self) -> Option<SessionRecorder> {
        let recorder = || {
            let decision = shortened(self.decision.clone());
            SessionRecorder::new(self.audit.log.clone(), decision, self.charge.clone())
        };
        self.audited.then(recorder)
    }

    /// Records a refusal by the handler: the policy knows roles and calls,
    /// handlers know whose the object is. An object of another project is not
    /// there, for the caller; the log says what it was refused.
    pub(crate) fn answered(&self, response: &Response<Body>) {
        const PERMISSION_DENIED: &str = "7";
        const NOT_FOUND: &str = "5";
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let grpc_status = header("grpc-status");
        let denied =
            response.status() == StatusCode::FORBIDDEN || grpc_status == Some(PERMISSION_DENIED);
        let not_found =
            response.status() == StatusCode::NOT_FOUND || grpc_status == Some(NOT_FOUND);
        if !denied && !not_found {
            return;
        }
        let mut decision = self.about();
        let why = match denied {
            true => header("grpc-message").unwrap_or("refused by the handler"),
            false if self.is_of_others(&decision) => {
                "the object is of another project than those of the caller; answered: not found"
            }
            false => return,
        };
        decision.outcome = Outcome::Denied;
        decision.reason = Some(why.to_owned());
        let account = self.account.as_deref();
        let bytes = self.audit.append_refusal(decision, account, self.source);
        self.charge.charge(bytes);
    }

    /// Whether an answer that shows values is to have a line: one for each
    /// caller and path in a while, so that who polls does not fill the log.
    pub(crate) fn is_new_read(&self) -> bool {
        !self.audited && !self.audit.reads.is_known(&self.read())
    }

    /// Records that its caller was shown values of variables.
    pub(crate) fn record_read(&self) {
        self.audit.reads.note(self.read());
        self.charge.charge(self.audit.append(self.about(), 0));
    }

    fn read(&self) -> (String, String) {
        let account = self.account.clone().unwrap_or_default();
        (account, bounded(&self.decision.call))
    }

    /// Whether what a call is about is of a project that is none of its caller.
    fn is_of_others(&self, decision: &Decision) -> bool {
        let (Some(own), Some(project)) = (&self.limited_to, &decision.project) else {
            return false;
        };
        !own.iter().any(|one| one.as_str() == project)
    }
}

/// The budget of a caller: by the id of its token, or by role and name, as a
/// certificate can be renewed.
fn account_of(authenticated: &Authenticated) -> String {
    match &authenticated.credential {
        Some(Credential::Token { id }) => format!("token {id}"),
        _ => {
            let caller = &authenticated.caller;
            format!("{} {}", caller.role, caller.name)
        }
    }
}

fn address_of<B>(request: &Request<B>) -> Option<IpAddr> {
    let remote = peer_of(request)?.remote?;
    Some(remote.ip())
}

fn peer_of<B>(request: &Request<B>) -> Option<&Peer> {
    request.extensions().get::<Arc<Peer>>().map(Arc::as_ref)
}

/// As the policy names it.
fn call_of<B>(request: &Request<B>, grpc: bool) -> String {
    let path = request.uri().path();
    match grpc {
        true => path.to_owned(),
        false => format!("{} {path}", request.method()),
    }
}

fn decision<B>(
    request: &Request<B>,
    call: String,
    authenticated: Option<&Authenticated>,
    outcome: Outcome,
) -> Decision {
    let caller = authenticated.map(|authenticated| &authenticated.caller);
    let credential = authenticated.map(|authenticated| match &authenticated.credential {
        Some(credential) => credential.to_string(),
        None => authenticated.caller.proof.to_string(),
    });
    let projects = caller.and_then(|caller| caller.projects.as_ref());
    Decision {
        principal: caller.map(|caller| caller.name.to_string()),
        role: caller.map(|caller| caller.role.to_string()),
        credential,
        projects: projects
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect(),
        source: peer_of(request)
            .and_then(|peer| peer.remote)
            .map(|remote| remote.to_string()),
        call,
        object: None,
        project: None,
        outcome,
        reason: None,
        session: None,
    }
}
