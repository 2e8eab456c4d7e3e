//! `strata node drain`: moves the instances of a node elsewhere, and lets it
//! take no more. The server does it as an operation, which is followed here.

use clap::Args;
use strata_api::rest::{DrainRequest, Node, Operation};
use strata_client::rest::RestClient;

use super::{Several, current};
use crate::commands::each::preview;
use crate::commands::last;
use crate::commands::operation::follow::{follow, verdict};
use crate::failure::{Exit, Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;

/// Move the instances of a node elsewhere, and let it take no more
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Stays until nothing is left on it. Ctrl-C leaves it to the server.

Examples:
  strata node drain rack1-7
  strata node drain rack1-7 --detach
  strata node drain rack1-7 --dry-run")]
pub struct Drain {
    #[command(flatten)]
    which: Several,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Whether to stay, and how to tell of it.
#[derive(Args, Clone, Debug)]
pub(super) struct Staying {
    /// Do not wait; print the id of the operation
    #[arg(short, long)]
    detach: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What is done to nodes, in the words of its messages.
pub(super) struct Emptying {
    pub(super) verb: &'static str,
    pub(super) doing: &'static str,
    pub(super) done: &'static str,
    pub(super) leave: bool,
}

const DRAIN: Emptying = Emptying {
    verb: "drain",
    doing: "draining",
    done: "drained",
    leave: false,
};

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "look at").await?;
                let many = human::count(node.instances, "instance");
                Ok(format!("would drain {name}, which has {many}"))
            })
            .await;
        }
        DRAIN
            .run(session, &rest, &self.which.names, &self.staying)
            .await
    }
}

impl Emptying {
    /// Begins with all of them, then waits for each.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        rest: &RestClient,
        names: &[String],
        staying: &Staying,
    ) -> Result {
        let mut failures = Vec::new();
        let mut begun = Vec::new();
        for name in names {
            match self.begin(rest, name).await {
                Ok(operation) => {
                    session.printer.note(&format!("{} {name}", self.doing));
                    begun.push((name, operation));
                }
                Err(failure) => failures.push(failure),
            }
        }
        if staying.detach {
            for (_, operation) in &begun {
                detached(session, operation, &staying.output)?;
            }
            return last(session, failures);
        }
        for (i, (name, operation)) in begun.iter().enumerate() {
            match self.stay(session, rest, name, operation, staying).await {
                Ok(()) => {}
                Err(failure) if failure.exit() == Exit::Interrupted => {
                    for (_, other) in &begun[i + 1..] {
                        let id = &other.id;
                        session
                            .printer
                            .note(&format!("and `strata operation wait {id}`"));
                    }
                    failures.push(failure);
                    break;
                }
                Err(failure) => failures.push(failure),
            }
        }
        last(session, failures)
    }

    async fn begin(&self, rest: &RestClient, name: &str) -> Result<Operation> {
        let asked = DrainRequest { leave: self.leave };
        let begun = rest.begin::<Node>(name, "drain", &asked).await;
        begun.map_err(unable(format!("{} the node {name}", self.verb)))
    }

    async fn stay(
        &self,
        session: &mut Session,
        rest: &RestClient,
        name: &str,
        operation: &Operation,
        staying: &Staying,
    ) -> Result {
        let ended = follow(session, rest, &operation.id).await?;
        if let Some(format) = staying.output.asked() {
            output::one(session, format, &ended)?;
        }
        verdict(&ended)?;
        session.printer.note(&format!("{} {name}", self.done));
        Ok(())
    }
}

/// The id alone, so that a shell can take it.
fn detached(session: &mut Session, operation: &Operation, output: &OutputArgs) -> Result {
    match output.asked() {
        Some(format) => output::one(session, format, operation),
        None => {
            let id = format!("{}\n", operation.id);
            Ok(session.printer.data(id.as_bytes())?)
        }
    }
}
