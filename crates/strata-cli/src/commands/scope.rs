//! The project of a command.

use clap::Args;
use strata_client::rest::Query;

use crate::complete;
use crate::values::label_name;

/// The default project.
pub(crate) const DEFAULT_PROJECT: &str = "default";

/// Project flag, flattened into every command on instances and workloads.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Project [default: default]
    #[arg(
        long,
        value_name = "PROJECT",
        env = "STRATA_PROJECT",
        hide_env_values = true
    )]
    #[arg(value_parser = label_name, add = complete::projects())]
    project: Option<String>,
}

impl Scope {
    /// The project, if one was given.
    pub(crate) fn given(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The project.
    pub(crate) fn project(&self) -> &str {
        self.given().unwrap_or(DEFAULT_PROJECT)
    }

    /// Query for one resource of the project.
    pub(crate) fn query(&self) -> Query {
        Query::new().project(self.given())
    }

    /// `PROJECT/NAME`, or the name alone in the default project.
    pub(crate) fn full(&self, name: &str) -> String {
        match self.given() {
            Some(project) if !name.contains('/') => format!("{project}/{name}"),
            _ => name.to_owned(),
        }
    }
}

/// As [`Scope`], for lists.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ListScope {
    #[command(flatten)]
    scope: Scope,

    /// List across all projects you may see
    #[arg(short = 'A', long, conflicts_with = "project")]
    all_projects: bool,
}

impl ListScope {
    /// The query of the list.
    pub(crate) fn query(&self) -> Query {
        match self.all_projects {
            true => Query::new(),
            false => Query::new().with("project", self.scope.project()),
        }
    }

    /// Name in the list, usable on the command line.
    pub(crate) fn name(&self, project: &str, name: &str) -> String {
        match self.all_projects {
            true => format!("{project}/{name}"),
            false => name.to_owned(),
        }
    }
}

impl AsRef<Scope> for ListScope {
    fn as_ref(&self) -> &Scope {
        &self.scope
    }
}
