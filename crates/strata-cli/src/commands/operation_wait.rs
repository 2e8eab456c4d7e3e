//! Operations that a command starts: followed until they complete, or detached.
//! All are started before the first is awaited.

use clap::Args;
use strata_api::rest::Operation;
use strata_client::rest::RestClient;

use super::last;
use super::operation::follow::{follow, outcome};
use crate::failure::{Exit, Result};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Waiting and output flags, flattened into every command that starts an
/// operation.
#[derive(Args, Clone, Debug)]
pub(crate) struct WaitArgs {
    /// Return immediately and print the operation ID
    #[arg(short, long, alias = "no-wait")]
    detach: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Labels of an action in messages: `draining`, `drained`.
pub(crate) struct ActionLabels {
    pub(crate) doing: &'static str,
    pub(crate) done: &'static str,
}

impl WaitArgs {
    /// Output format of a plan or result.
    pub(crate) fn output(&self) -> OutputArgs {
        self.output
    }

    /// Starts an operation for each of `names`, then waits for each.
    pub(crate) async fn each(
        &self,
        session: &mut Session,
        rest: &RestClient,
        labels: &ActionLabels,
        names: &[String],
        mut start: impl AsyncFnMut(&str) -> Result<Operation>,
    ) -> Result {
        let mut failures = Vec::new();
        let mut started = Vec::new();
        for name in names {
            match start(name).await {
                Ok(operation) => {
                    print_started(session, &format!("{} {name}", labels.doing), &operation);
                    started.push((name, operation));
                }
                Err(failure) => failures.push(failure),
            }
        }
        if self.detach {
            for (_, operation) in &started {
                self.detach(session, operation)?;
            }
            return last(session, failures);
        }
        for (i, (name, operation)) in started.iter().enumerate() {
            let done = format!("{} {name}", labels.done);
            match self.wait(session, rest, operation, &done).await {
                Ok(()) => {}
                Err(failure) if failure.exit() == Exit::Interrupted => {
                    for (_, other) in &started[i + 1..] {
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

    /// Waits for a started operation. `doing` and `done` are complete
    /// messages.
    pub(crate) async fn one(
        &self,
        session: &mut Session,
        rest: &RestClient,
        started: &Operation,
        (doing, done): (&str, &str),
    ) -> Result {
        print_started(session, doing, started);
        match self.detach {
            true => self.detach(session, started),
            false => self.wait(session, rest, started, done).await,
        }
    }

    async fn wait(
        &self,
        session: &mut Session,
        rest: &RestClient,
        started: &Operation,
        done: &str,
    ) -> Result {
        let ended = follow(session, rest, &started.id).await?;
        if let Some(format) = self.output.requested() {
            output::one(session, format, &ended)?;
        }
        outcome(&ended)?;
        session.printer.note(done);
        Ok(())
    }

    /// Prints the ID alone, for scripts.
    fn detach(&self, session: &mut Session, started: &Operation) -> Result {
        match self.output.requested() {
            Some(format) => output::one(session, format, started),
            None => {
                let id = format!("{}\n", started.id);
                Ok(session.printer.data(id.as_bytes())?)
            }
        }
    }
}

/// Prints the operation ID, so that another terminal can follow or cancel it.
fn print_started(session: &mut Session, doing: &str, started: &Operation) {
    let line = format!("{doing}; operation {}", started.id);
    session.printer.note(&line);
}
