//! What a request is about, for the audit log: the object, and the project it
//! is in. Read from the path, the query and the beginning of the body, by
//! tables that name where it stands, so that no handler has to say it and none
//! can forget to. Nothing else of a body is kept: it may hold secrets.

mod grpc;
mod rest;

use http::Request;

/// As much of a body as is looked at: more than any REST body may have.
pub(crate) const LOOKED_AT: usize = 256 << 10;
/// As much of a body as says how long its first message is.
pub(crate) const BEGINNING: usize = grpc::HEADER;
/// As much of a name as is written, in characters.
const LONGEST: usize = 256;

/// Knows whose the objects are that requests name by an id.
pub trait ProjectLookup: Send + Sync {
    /// The project of an object of a kind (`instance`, `workload`, `secret`),
    /// by its id or its name. `project` is the one that the request names.
    fn project_of(&self, kind: &str, name: &str, project: Option<&str>) -> Option<String>;
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
    /// where nobody has read it yet.
    pub(crate) fn of<B>(
        request: &Request<B>,
        grpc: bool,
        body: &[u8],
        lookup: Option<&dyn ProjectLookup>,
    ) -> Self {
        let uri = request.uri();
        let found = match grpc {
            true => grpc::find(uri.path(), body),
            false => rest::find(request.method().as_str(), uri.path(), uri.query(), body),
        };
        found.map_or_else(Self::default, |found| found.subject(lookup))
    }

    /// Of a call as the policy names it, by its path alone.
    pub(crate) fn of_call(call: &str, lookup: Option<&dyn ProjectLookup>) -> Self {
        let found = match call.split_once(' ') {
            Some((method, path)) => rest::find(method, path, None, &[]),
            None => grpc::find(call, &[]),
        };
        found.map_or_else(Self::default, |found| found.subject(lookup))
    }
}

/// What the tables find.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    kind: String,
    /// Empty where the request names none.
    name: String,
    /// As the request names it.
    project: Option<String>,
    /// It does not exist yet.
    is_new: bool,
}

impl Found {
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
        const OF_PROJECTS: [&str; 3] = ["instance", "workload", "secret"];
        const DEFAULT: &str = "default";
        if self.kind == "project" && !self.name.is_empty() {
            return Some(bounded(&self.name));
        }
        if !OF_PROJECTS.contains(&self.kind.as_str()) {
            return None;
        }
        let named = self.project.as_deref();
        let known = match (self.is_new, lookup) {
            (false, Some(lookup)) => lookup.project_of(&self.kind, &self.name, named),
            _ => None,
        };
        let default = || self.is_new.then(|| DEFAULT.to_owned());
        let project = known.or_else(|| self.project.clone()).or_else(default);
        project.map(|project| bounded(&project))
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Whether the body has to be read to know what a request is about.
pub(crate) fn is_in_body(method: &str, path: &str, grpc: bool) -> bool {
    match grpc {
        true => grpc::is_in_body(path),
        false => rest::is_in_body(method, path),
    }
}

/// Whether so many bytes, which begin like this, are all of what a body says.
pub(crate) fn is_whole(beginning: &[u8], length: usize, grpc: bool) -> bool {
    grpc && grpc::is_whole(beginning, length)
}
