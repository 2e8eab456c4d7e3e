//! `strata audit`: who was allowed to do what, and who was not. Read from the
//! files in the data directory, as root of the host whose daemon wrote them:
//! also while no daemon runs. With `--remote` a server reads its own, for
//! admins.

mod list;
mod tail;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use strata_audit::{Entry, Filter, Page};
use strata_client::rest::Query;

use crate::failure::{Failure, Result};
use crate::output::{self, Format, Show as _};
use crate::session::Session;

/// Where the log is, in a data directory.
pub const AUDIT: &str = "audit";
/// What says where the log ends, in a data directory.
pub const AUDIT_HEAD: &str = "audit.head";

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the latest entries
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show the latest entries and follow new ones
    Tail(tail::Tail),
    /// Verify the hash chain of the log
    Verify(verify::Verify),
}

impl AuditCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Tail(command) => command.run(session).await,
            Self::Verify(command) => command.run(session),
        }
    }
}

/// Filters of audit entries.
#[derive(Args, Debug)]
struct Selection {
    /// Only calls by this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only entries whose call contains this text
    #[arg(long, value_name = "TEXT")]
    call: Option<String>,
    /// Only entries about this object or objects in it, e.g. instance/web or
    /// cell
    #[arg(long, value_name = "OBJECT")]
    object: Option<String>,
    /// Only entries about objects of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only rejected calls
    #[arg(long)]
    refused: bool,
    /// Only starts and ends of sessions: exec, attach, console, executables
    #[arg(long)]
    sessions: bool,
    /// Number of entries, at most 1000 from a server
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Read the log through the server instead of from files; admins only
    #[arg(long)]
    remote: bool,
}

impl Selection {
    fn filter(&self) -> Filter {
        Filter {
            after: 0,
            principal: self.principal.clone(),
            call: self.call.clone(),
            object: self.object.clone(),
            project: self.project.clone(),
            refused: self.refused,
            sessions: self.sessions,
        }
    }

    /// The filter as a REST query.
    fn query(&self) -> Query {
        self.restrict(Query::new().with("tail", self.limit.to_string()))
    }

    /// Those after a number.
    fn query_after(&self, number: u64) -> Query {
        self.restrict(Query::new().with("after", number.to_string()))
    }

    fn restrict(&self, query: Query) -> Query {
        let flag = |set: bool| set.then_some("true");
        query
            .maybe("principal", self.principal.as_deref())
            .maybe("call", self.call.as_deref())
            .maybe("object", self.object.as_deref())
            .maybe("project", self.project.as_deref())
            .maybe("refused", flag(self.refused))
            .maybe("sessions", flag(self.sessions))
    }

    /// The latest that are selected, oldest first, and the number of the last
    /// line there is.
    fn latest(&self, directory: &Path) -> Result<Page> {
        Page::latest(directory, &self.filter(), self.limit).map_err(unreadable(directory))
    }
}

fn directory(session: &Session) -> PathBuf {
    data_dir(session).join(AUDIT)
}

fn data_dir(session: &Session) -> &Path {
    let discovery = &session.discovery;
    let data_dir = discovery.data_dir.as_ref();
    data_dir.unwrap_or(&discovery.places.data_dir)
}

fn unreadable(directory: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| {
        Failure::file("read the audit log in", directory, &error).hint(
            "run this on the host of the daemon as root with --data-dir DIR, or read the log through the server with --remote",
        )
    }
}

/// One line for each as it comes.
fn print(session: &mut Session, format: Format, entry: &Entry) -> Result {
    match format {
        Format::Json | Format::Yaml => output::line(session, format, entry),
        Format::Name => Ok(session
            .printer
            .data(format!("{}\n", entry.reference()).as_bytes())?),
        Format::Table | Format::Wide => {
            let line = crate::view::audit_line(entry);
            Ok(session.printer.data(line.as_bytes())?)
        }
    }
}
