//! `strata cell wait`: answers once an executable has ended; its end becomes
//! the exit code.

use clap::Args;
use strata_api::strata::v1::{GetCellRequest, WaitExecutableRequest};
use strata_client::NodeClient;
use strata_types::{CellName, ExecutableName};

use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::values::{Span, cell_name, executable_name};
use crate::view::ExecutableView;

/// Wait for an executable to exit
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 0 if it exited with 0, else with 7.

Examples:
  strata cell wait batch job
  strata cell wait batch job --timeout 10m -o json | jq .exit_code")]
pub struct Wait {
    /// Name of the cell
    #[arg(value_parser = cell_name, add = complete::cells())]
    cell: CellName,

    /// Name of the executable
    #[arg(value_parser = executable_name, add = complete::executables())]
    name: ExecutableName,

    /// Timeout, after which the command exits with 7
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Wait {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let (cell, name) = (self.cell.to_string(), self.name.to_string());
        let end = until_end(&node, &cell, &name);
        let ended = match self.timeout {
            None => end.await?,
            Some(limit) => tokio::time::timeout(limit.0, end).await.map_err(|_| {
                Failure::new(
                    Exit::Failed,
                    format!("timeout: {cell}/{name} still runs after {limit}"),
                )
            })??,
        };
        conclude(session, &ended, self.output)
    }
}

/// Waits for the exit.
pub(super) async fn until_end(node: &NodeClient, cell: &str, name: &str) -> Result<ExecutableView> {
    let request = WaitExecutableRequest {
        cell_name: cell.to_owned(),
        executable_name: name.to_owned(),
    };
    let answer = node
        .cells()
        .wait(request)
        .await
        .map_err(cannot(node, format!("wait for {cell}/{name}")))?;
    Ok(answer.into_inner().into())
}

/// Reports the exit: a message, data with `-o`, and the exit code.
pub(super) fn conclude(
    session: &mut Session,
    ended: &ExecutableView,
    output: OutputArgs,
) -> Result {
    if let Some(format) = output.requested() {
        output::one(session, format, ended)?;
    }
    let outcome = format!("{} ended: {}", ended.path(), ended.outcome());
    if ended.succeeded() {
        session.printer.note(&outcome);
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, outcome))
}

/// The executable as it is now.
pub(super) async fn current(node: &NodeClient, cell: &str, name: &str) -> Result<ExecutableView> {
    let request = GetCellRequest {
        cell_name: cell.to_owned(),
    };
    let answer = node
        .cells()
        .get(request)
        .await
        .map_err(cannot(node, format!("read {cell}/{name}")))?;
    let mut executables = answer.into_inner().executables.into_iter();
    executables
        .find(|executable| executable.name == name)
        .map(Into::into)
        .ok_or_else(|| {
            Failure::new(
                Exit::Refused,
                format!("no executable {name} in the cell {cell}"),
            )
            .hint(format!("`strata cell show {cell}` lists them"))
        })
}

/// Prints the executable as it is now.
pub(super) async fn print_current(
    session: &mut Session,
    node: &NodeClient,
    cell: &str,
    name: &str,
    format: Format,
) -> Result {
    let executable = current(node, cell, name).await?;
    output::one(session, format, &executable)
}
