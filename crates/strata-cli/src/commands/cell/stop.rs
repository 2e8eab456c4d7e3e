//! `strata cell stop`: SIGTERM, a grace, SIGKILL.

use clap::Args;
use strata_api::runtime::StopCellRequest;
use strata_types::{CellName, ExecutableName};

use super::wait;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::values::{Span, cell_name, executable_name};

/// Stop executables in a cell
#[derive(Args, Debug)]
#[command(after_help = "\
Its child processes are stopped too. Stopping an exited executable succeeds.

Examples:
  strata cell stop web main
  strata cell stop web main --grace 30s")]
pub struct Stop {
    /// Name of the cell
    #[arg(value_parser = cell_name, add = complete::cells())]
    cell: CellName,

    /// Name of the executable
    #[arg(value_parser = executable_name, add = complete::executables())]
    name: ExecutableName,

    /// Time between SIGTERM and SIGKILL [default: that of the executable]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let (cell, name) = (self.cell.to_string(), self.name.to_string());
        if self.dry_run {
            let executable = wait::current(&node, &cell, &name).await?;
            let line = if executable.is_running() {
                format!("would stop {cell}/{name}{}\n", executable.with_pid())
            } else {
                format!("{cell}/{name} has ended: {}\n", executable.outcome())
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let request = StopCellRequest {
            cell_name: cell.clone(),
            executable_name: name.clone(),
            grace_ms: self.grace.map(Span::millis_u32),
        };
        node.cell_service()
            .stop(request)
            .await
            .map_err(cannot(&node, format!("stop {cell}/{name}")))?;
        session.printer.note(&format!("stopped {cell}/{name}"));
        match self.output.requested() {
            Some(format) => wait::print_current(session, &node, &cell, &name, format).await,
            None => Ok(()),
        }
    }
}
