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

/// The verbs of the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// The latest decisions
    #[command(visible_alias = "ls")]
    List(list::List),
    /// The latest decisions, and those that follow
    Tail(tail::Tail),
    /// Whether the chain of hashes is whole
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

/// Which decisions are shown.
#[derive(Args, Debug)]
struct Selection {
    /// Only those about this caller
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only those whose call contains this
    #[arg(long, value_name = "TEXT")]
    call: Option<String>,
    /// Only those about this object, or what is in it: instance/web, cell
    #[arg(long, value_name = "OBJECT")]
    object: Option<String>,
    /// Only those about objects of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only refusals
    #[arg(long)]
    refused: bool,
    /// Only the starts and ends of exec, attach, console and executables
    #[arg(long)]
    sessions: bool,
    /// So many of the latest, 1000 at most from a server
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Ask the server for its log instead of reading files: for admins
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

    /// The same, as a server is asked for it.
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
    let discovery = &session.discovery;
    let data_dir = discovery.data_dir.as_ref();
    data_dir.unwrap_or(&discovery.places.data_dir).join(AUDIT)
}

fn unreadable(directory: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| {
        Failure::file("read the audit log in", directory, &error).hint(
            "it is on the host of the daemon, for root: --data-dir DIR says where; \
             --remote asks the server for its own",
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
