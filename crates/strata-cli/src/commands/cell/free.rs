//! `strata cell free`: stops all that runs in cells and gives them back.

use clap::Args;
use strata_api::runtime::FreeCellRequest;
use strata_api::strata::v1::ListCellsRequest;
use strata_client::NodeClient;
use strata_types::CellName;

use crate::complete;
use crate::failure::{Failure, Result, cannot};
use crate::session::Session;
use crate::values::{Span, cell_name};
use crate::view::CellView;

/// Stop everything in cells and free them
#[derive(Args, Debug)]
#[command(after_help = "\
Nested cells are freed first.

Examples:
  strata cell free web
  strata cell free web batch --grace 30s --yes")]
pub struct Free {
    /// Names of the cells
    #[arg(value_name = "NAME", required = true, value_parser = cell_name)]
    #[arg(add = complete::cells())]
    names: Vec<CellName>,

    /// Time between SIGTERM and SIGKILL [default: that of each executable]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Free {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            for name in &self.names {
                let cells = below(&node, name).await?;
                let line = format!("would free {}\n", describe(name, &cells));
                session.printer.data(line.as_bytes())?;
            }
            return Ok(());
        }
        self.confirm(session, &node).await?;
        let mut failures = Vec::new();
        for name in &self.names {
            let request = FreeCellRequest {
                cell_name: name.to_string(),
                grace_ms: self.grace.map(Span::millis_u32),
            };
            match node.cell_service().free(request).await {
                Ok(_) => session.printer.note(&format!("freed {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("free the cell {name}"))(status));
                }
            }
        }
        last(session, failures)
    }

    async fn confirm(&self, session: &mut Session, node: &NodeClient) -> Result {
        if self.yes || !session.interactive {
            return Ok(());
        }
        let mut running = Vec::new();
        for name in &self.names {
            let cells = below(node, name).await?;
            if cells.iter().any(|cell| cell.running() > 0) {
                running.push(describe(name, &cells));
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        session.confirm(&format!("Free {}?", running.join(", ")), false)
    }
}

/// Prints all failures but the last, which becomes the command's own.
fn last(session: &mut Session, mut failures: Vec<Failure>) -> Result {
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in failures {
        session.printer.failure(&failure);
    }
    Err(last)
}

/// The cell and all that sit in it.
async fn below(node: &NodeClient, name: &CellName) -> Result<Vec<CellView>> {
    let request = ListCellsRequest {
        under: name.to_string(),
    };
    let answer = node
        .cells()
        .list(request)
        .await
        .map_err(cannot(node, format!("read the cell {name}")))?;
    let cells = answer.into_inner().cells;
    Ok(cells.into_iter().map(Into::into).collect())
}

/// `web (stops main, worker; frees web/cache first)`.
fn describe(name: &CellName, cells: &[CellView]) -> String {
    let name = name.to_string();
    let running: Vec<&str> = cells
        .iter()
        .flat_map(|cell| &cell.executables)
        .filter(|executable| executable.is_running())
        .map(|executable| executable.name.as_str())
        .collect();
    let inner: Vec<&str> = cells
        .iter()
        .map(|cell| cell.name.as_str())
        .filter(|cell| *cell != name)
        .collect();
    let mut parts = Vec::new();
    if !running.is_empty() {
        parts.push(format!("stops {}", running.join(", ")));
    }
    if !inner.is_empty() {
        parts.push(format!("frees {} first", inner.join(", ")));
    }
    match parts.len() {
        0 => name,
        _ => format!("{name} ({})", parts.join("; ")),
    }
}
