//! The principal of a request, and the projects it may act in.

use strata_identity::Caller;
use strata_types::{Error, ErrorKind, Label, Result, Role};

use super::record::Instance;

/// The authenticated caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub role: Role,
    /// The projects it is limited to; all when none are given.
    pub projects: Option<Vec<Label>>,
}

impl Principal {
    /// The server itself, which is limited in nothing: an operation of it, its
    /// configuration.
    pub(crate) fn server(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            role: Role::Admin,
            projects: None,
        }
    }

    /// Refuses a principal that is limited to other projects.
    pub fn in_project(&self, project: &Label) -> Result<()> {
        if self.sees(project) {
            return Ok(());
        }
        let why = format!("{} may not act in project {project}", self.name);
        Err(Error::new(ErrorKind::PermissionDenied, why))
    }

    /// Whether it may know of things in this project.
    pub fn sees(&self, project: &Label) -> bool {
        let among = |projects: &Vec<Label>| projects.contains(project);
        self.projects.as_ref().is_none_or(among)
    }

    /// The node that it is, which sees itself and its own instances alone.
    pub fn own_node(&self) -> Option<&str> {
        (self.role == Role::Node).then_some(self.name.as_str())
    }

    /// Whether it may know of this instance.
    pub fn sees_instance(&self, one: &Instance) -> bool {
        let own = |node: &str| one.node.as_deref() == Some(node);
        self.sees(&one.project) && self.own_node().is_none_or(own)
    }

    /// Whether it is limited to some projects: then it is shown nothing of
    /// nodes, machines, clusters and instances of others.
    pub fn is_limited(&self) -> bool {
        self.projects.is_some()
    }

    /// Refuses a principal that is limited to some projects.
    pub fn require_all_projects(&self) -> Result<()> {
        match &self.projects {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::PermissionDenied,
                format!("{} is limited to some projects", self.name),
            )),
        }
    }
}

impl From<&Caller> for Principal {
    fn from(caller: &Caller) -> Self {
        Self {
            name: caller.name.to_string(),
            role: caller.role,
            projects: caller.projects.clone(),
        }
    }
}
