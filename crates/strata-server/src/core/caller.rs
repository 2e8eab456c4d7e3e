//! Who asks, and of which projects it may.

use strata_identity::Caller;
use strata_types::{Error, ErrorKind, Label, Result, Role};

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The projects it is limited to; all when none are given.
    pub projects: Option<Vec<Label>>,
}

impl Who {
    /// The server itself, which is limited in nothing: an operation of it, its
    /// configuration.
    pub(crate) fn server(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            role: Role::Admin,
            projects: None,
        }
    }

    /// Refuses whoever is limited to other projects.
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

    /// Refuses whoever is limited to some projects.
    pub fn everywhere(&self) -> Result<()> {
        match &self.projects {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::PermissionDenied,
                format!("{} is limited to some projects", self.name),
            )),
        }
    }
}

impl From<&Caller> for Who {
    fn from(caller: &Caller) -> Self {
        Self {
            name: caller.name.to_string(),
            role: caller.role,
            projects: caller.projects.clone(),
        }
    }
}
