//! `strata operation wait`: stays with a long action until it has ended; its
//! end becomes the exit code.

use clap::Args;

use super::follow::{follow, outcome};
use super::{OperationArg, title};
use crate::failure::{Exit, Failure, Result};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::Span;

/// Wait for an operation to complete
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 0 if it completed, else with 7. Ctrl-C detaches; the operation
continues on the server.

Examples:
  strata operation wait 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
  strata operation wait 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e --timeout 10m")]
pub struct Wait {
    #[command(flatten)]
    one: OperationArg,

    /// Timeout, after which the command exits with 7
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Wait {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let id = &self.one.id;
        let end = follow(session, &rest, id);
        let ended = match self.timeout {
            None => end.await?,
            Some(limit) => tokio::time::timeout(limit.0, end).await.map_err(|_| {
                let what = format!("timeout: {id} has not completed after {limit}");
                Failure::new(Exit::Failed, what)
            })??,
        };
        if let Some(format) = self.output.requested() {
            output::one(session, format, &ended)?;
        }
        outcome(&ended)?;
        session
            .printer
            .note(&format!("{} completed", title(&ended)));
        Ok(())
    }
}
