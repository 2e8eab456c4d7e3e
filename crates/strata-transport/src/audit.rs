//! What is written into the audit log: each decision of the gate that lets a
//! request change something or read a secret, before the request reaches its
//! handler, with the object it is about and that one's project, and each refusal, by the gate or by the handler, as far as one source may
//! cause lines.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use strata_audit::{AuditLog, Decision, Outcome, RefusalLimiter, SessionRecorder};
use strata_identity::policy;
use strata_types::{Error, ErrorKind};

use crate::gate::Proven;
use crate::subject::Subject;
use crate::{Peer, ProjectLookup};

/// The audit log of a gate.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Arc<AuditLog>,
    refusals: RefusalLimiter,
}

impl Audit {
    pub(crate) fn new(log: Arc<AuditLog>) -> Self {
        Self {
            log,
            refusals: RefusalLimiter::default(),
        }
    }

    /// A request that may go on to its handler, which may still refuse it.
    /// The line is written by [`Handled::allow`].
    pub(crate) fn allowed<B>(
        self: &Arc<Self>,
        request: &Request<B>,
        grpc: bool,
        proven: Option<&Proven>,
        lookup: Option<&Arc<dyn ProjectLookup>>,
    ) -> Arc<Handled> {
        let call = call_of(request, grpc);
        let audited = policy::is_audited(&call);
        let decision = decision(request, call, proven, Outcome::Allowed);
        Arc::new(Handled {
            audit: self.clone(),
            decision,
            source: address_of(request),
            audited,
            lookup: lookup.cloned(),
            subject: OnceLock::new(),
        })
    }

    /// A request goes no further.
    pub(crate) fn refused<B>(
        &self,
        request: &Request<B>,
        grpc: bool,
        proven: Option<&Proven>,
        why: &Error,
        lookup: Option<&Arc<dyn ProjectLookup>>,
    ) {
        let outcome = match why.kind() {
            ErrorKind::Unauthenticated => Outcome::Unauthenticated,
            _ => Outcome::Denied,
        };
        let mut decision = decision(request, call_of(request, grpc), proven, outcome);
        decision.reason = Some(why.message().to_owned());
        // What its body says is not read for whoever may not call.
        let lookup = lookup.filter(|_| proven.is_some()).map(Arc::as_ref);
        set(&mut decision, Subject::of(request, grpc, &[], lookup));
        self.append_refusal(decision, address_of(request));
    }

    fn append_refusal(&self, decision: Decision, source: Option<IpAddr>) {
        if let Some(suppressed) = self.refusals.admit(source) {
            self.log.append(decision, suppressed);
        }
    }
}

fn set(decision: &mut Decision, subject: Subject) {
    (decision.object, decision.project) = (subject.object, subject.project);
}

/// A request that the gate handed on, until its handler has answered.
pub(crate) struct Handled {
    audit: Arc<Audit>,
    decision: Decision,
    source: Option<IpAddr>,
    audited: bool,
    lookup: Option<Arc<dyn ProjectLookup>>,
    /// Known once its line is written.
    subject: OnceLock<Subject>,
}

impl Handled {
    pub(crate) fn is_audited(&self) -> bool {
        self.audited
    }

    /// Writes down that the request goes to its handler now, and what it is
    /// about, as far as this beginning of its body says it.
    pub(crate) fn allow<B>(&self, request: &Request<B>, grpc: bool, body: &[u8]) {
        let subject = Subject::of(request, grpc, body, self.lookup.as_deref());
        if self.subject.set(subject).is_ok() {
            self.audit.log.append(self.about(), 0);
        }
    }

    /// The decision with what it is about.
    fn about(&self) -> Decision {
        let mut decision = self.decision.clone();
        let by_path = || Subject::of_call(&decision.call, self.lookup.as_deref());
        let subject = self.subject.get().cloned().unwrap_or_else(by_path);
        set(&mut decision, subject);
        decision
    }

    /// With what a handler records the sessions of the request.
    pub(crate) fn session_recorder(&self) -> Option<SessionRecorder> {
        let recorder = || SessionRecorder::new(self.audit.log.clone(), self.decision.clone());
        self.audited.then(recorder)
    }

    /// Writes down a refusal by the handler: the policy knows roles and calls,
    /// handlers know whose the object is.
    pub(crate) fn answered(&self, response: &Response<Body>) {
        const PERMISSION_DENIED: &str = "7";
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let denied = response.status() == StatusCode::FORBIDDEN
            || header("grpc-status") == Some(PERMISSION_DENIED);
        if denied {
            let mut decision = self.about();
            decision.outcome = Outcome::Denied;
            let why = header("grpc-message").unwrap_or("refused by the handler");
            decision.reason = Some(why.to_owned());
            self.audit.append_refusal(decision, self.source);
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
    proven: Option<&Proven>,
    outcome: Outcome,
) -> Decision {
    let caller = proven.map(|proven| &proven.caller);
    let credential = proven.map(|proven| match &proven.credential {
        Some(credential) => credential.to_string(),
        None => proven.caller.proof.to_string(),
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
