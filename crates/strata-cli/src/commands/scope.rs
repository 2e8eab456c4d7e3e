//! Whose things a command is about.

use clap::Args;
use strata_client::rest::Query;

use crate::complete;
use crate::values::label_name;

/// The project of whoever names none.
pub(crate) const DEFAULT_PROJECT: &str = "default";

/// Flatten this into every command about instances and workloads.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The project; default unless told
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
    /// The project, if one was said.
    pub(crate) fn said(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The project.
    pub(crate) fn project(&self) -> &str {
        self.said().unwrap_or(DEFAULT_PROJECT)
    }

    /// For questions about one thing of it.
    pub(crate) fn query(&self) -> Query {
        Query::new().project(self.said())
    }

    /// A thing of it, with the project where that is not the usual one.
    pub(crate) fn full(&self, name: &str) -> String {
        match self.said() {
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

    /// Of all projects that you may see
    #[arg(short = 'A', long, conflicts_with = "project")]
    all_projects: bool,
}

impl ListScope {
    /// What is asked for.
    pub(crate) fn query(&self) -> Query {
        match self.all_projects {
            true => Query::new(),
            false => Query::new().with("project", self.scope.project()),
        }
    }

    /// How a thing is called in the list: so that the name can be copied.
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
