//! What a request is about, for the audit log: the object, and the project it
//! is in. Read from the path, the query and the beginning of the body, by
//! tables that name where it stands, so that no handler has to report it and
//! none can omit it. Nothing else of a body is kept: it may hold secrets.

mod grpc;
mod rest;

use http::Request;
use jiff::Timestamp;
use strata_identity::policy::Policy;
use strata_types::Label;

/// As much of a body as is read: more than any REST body may have.
pub(crate) const INSPECTED_BYTES: usize = 256 << 10;
/// As much of a body as holds the length of its first message.
pub(crate) const PREFIX_BYTES: usize = grpc::HEADER;
/// As much of a name, a call or a reason as is written, in characters.
const MAX_NAME_CHARS: usize = 256;

/// Knows whose the objects are that requests name by an id.
pub trait ProjectLookup: Send + Sync {
    /// The project of an object of a kind (`instance`, `workload`, `secret`),
    /// by its id or its name. `project` is the one that the request names.
    fn project_of(&self, kind: &str, name: &str, project: Option<&str>) -> Option<String>;

    /// When another project of the name of this one was deleted: a token from
    /// before that is limited to that one.
    fn succeeds_at(&self, _project: &Label) -> Option<Timestamp> {
        None
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// `instance/web`, `cell/a/main`; the kind alone where there is no name.
    pub(crate) object: Option<String>,
    pub(crate) project: Option<String>,
}

impl Subject {
    /// Of a request with this beginning of a body; empty where it has none, or
    /// where it has not been read yet.
    pub(crate) fn of<B>(
        policy: Policy,
        request: &Request<B>,
        grpc: bool,
        body: &[u8],
        lookup: Option<&dyn ProjectLookup>,
    ) -> Self {
        let uri = request.uri();
        let found = match grpc {
            true => grpc::find(uri.path(), body),
            false => {
                let call = (request.method().as_str(), uri.path());
                rest::find(policy, call, uri.query(), body)
            }
        };
        found.map_or_else(Self::default, |found| found.subject(lookup))
    }

    /// Of a call as the policy names it, by its path and query alone.
    pub(crate) fn of_call(
        policy: Policy,
        call: &str,
        query: Option<&str>,
        lookup: Option<&dyn ProjectLookup>,
    ) -> Self {
        let found = match call.split_once(' ') {
            Some(call) => rest::find(policy, call, query, &[]),
            None => grpc::find(call, &[]),
        };
        found.map_or_else(Self::default, |found| found.subject(lookup))
    }
}

/// What the tables find.
#[derive(Debug, Default, PartialEq, Eq)]
struct SubjectMatch {
    kind: String,
    /// Empty where the request names none.
    name: String,
    /// As the request names it.
    project: Option<String>,
    /// It does not exist yet.
    is_new: bool,
}

impl SubjectMatch {
    fn subject(self, lookup: Option<&dyn ProjectLookup>) -> Subject {
        let object = match self.name.is_empty() {
            true => self.kind.clone(),
            false => format!("{}/{}", self.kind, self.name),
        };
        Subject {
            project: self.project(lookup),
            object: Some(bounded(&object)),
        }
    }

    fn project(&self, lookup: Option<&dyn ProjectLookup>) -> Option<String> {
        const PROJECT_KINDS: [&str; 3] = ["instance", "workload", "secret"];
        const DEFAULT_PROJECT: &str = "default";
        if self.kind == "project" && !self.name.is_empty() {
            return Some(bounded(&self.name));
        }
        if !PROJECT_KINDS.contains(&self.kind.as_str()) {
            return None;
        }
        let named = self.project.as_deref();
        let known = match (self.is_new, lookup) {
            (false, Some(lookup)) => lookup.project_of(&self.kind, &self.name, named),
            _ => None,
        };
        let default = || self.is_new.then(|| DEFAULT_PROJECT.to_owned());
        let project = known.or_else(|| self.project.clone()).or_else(default);
        project.map(|project| bounded(&project))
    }
}

/// The beginning of a text.
pub(crate) fn bounded(text: &str) -> String {
    text.chars().take(MAX_NAME_CHARS).collect()
}

/// Whether the body has to be read to know what a request is about.
pub(crate) fn is_in_body(policy: Policy, method: &str, path: &str, grpc: bool) -> bool {
    match grpc {
        true => grpc::is_in_body(path),
        false => rest::is_in_body(policy, method, path),
    }
}

/// Whether so many bytes, which begin like this, are all that is read of a
/// body.
pub(crate) fn is_whole(beginning: &[u8], length: usize, grpc: bool) -> bool {
    grpc && grpc::is_whole(beginning, length)
}
