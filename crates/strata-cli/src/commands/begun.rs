//! Long actions that a command begins: followed until they have ended, or left
//! to the server. All are begun before the first is waited for.

use clap::Args;
use strata_api::rest::Operation;
use strata_client::rest::RestClient;

use super::last;
use super::operation::follow::{follow, verdict};
use crate::failure::{Exit, Result};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Whether to stay, and how to tell of it. Flatten this into every command
/// that begins a long action.
#[derive(Args, Clone, Debug)]
pub(crate) struct Staying {
    /// Do not wait; print the id of the operation
    #[arg(short, long, alias = "no-wait")]
    detach: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What is done, in the words of its messages: `draining`, `drained`.
pub(crate) struct Doing {
    pub(crate) doing: &'static str,
    pub(crate) done: &'static str,
}

impl Staying {
    /// How a plan or a result is to be printed, if that was said.
    pub(crate) fn output(&self) -> OutputArgs {
        self.output
    }

    /// Begins with each of `names`, then waits for each.
    pub(crate) async fn each(
        &self,
        session: &mut Session,
        rest: &RestClient,
        words: &Doing,
        names: &[String],
        mut begin: impl AsyncFnMut(&str) -> Result<Operation>,
    ) -> Result {
        let mut failures = Vec::new();
        let mut begun = Vec::new();
        for name in names {
            match begin(name).await {
                Ok(operation) => {
                    told(session, &format!("{} {name}", words.doing), &operation);
                    begun.push((name, operation));
                }
                Err(failure) => failures.push(failure),
            }
        }
        if self.detach {
            for (_, operation) in &begun {
                self.leave(session, operation)?;
            }
            return last(session, failures);
        }
        for (i, (name, operation)) in begun.iter().enumerate() {
            let done = format!("{} {name}", words.done);
            match self.stay(session, rest, operation, &done).await {
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

    /// Waits for the one that was begun. `doing` and `done` are whole
    /// sentences for people.
    pub(crate) async fn one(
        &self,
        session: &mut Session,
        rest: &RestClient,
        begun: &Operation,
        (doing, done): (&str, &str),
    ) -> Result {
        told(session, doing, begun);
        match self.detach {
            true => self.leave(session, begun),
            false => self.stay(session, rest, begun, done).await,
        }
    }

    async fn stay(
        &self,
        session: &mut Session,
        rest: &RestClient,
        begun: &Operation,
        done: &str,
    ) -> Result {
        let ended = follow(session, rest, &begun.id).await?;
        if let Some(format) = self.output.asked() {
            output::one(session, format, &ended)?;
        }
        verdict(&ended)?;
        session.printer.note(done);
        Ok(())
    }

    /// The id alone, so that a shell can take it.
    fn leave(&self, session: &mut Session, begun: &Operation) -> Result {
        match self.output.asked() {
            Some(format) => output::one(session, format, begun),
            None => {
                let id = format!("{}\n", begun.id);
                Ok(session.printer.data(id.as_bytes())?)
            }
        }
    }
}

/// With the id, by which another terminal can look at it or call it off.
fn told(session: &mut Session, doing: &str, begun: &Operation) {
    let line = format!("{doing}; operation {}", begun.id);
    session.printer.note(&line);
}
