//! `strata cell show`: one cell, all that is known of it.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use strata_api::strata::v1::GetCellRequest;
use strata_types::CellName;

use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, Show as _, Table, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::values::cell_name;
use crate::view::{CellView, ExecutableView};

/// Show a cell and its executables
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cell show web
  strata cell show web -o yaml > web.yaml    # cell allocate -f takes it again")]
pub struct Show {
    /// Name of the cell
    #[arg(value_parser = cell_name, add = complete::cells())]
    name: CellName,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = GetCellRequest {
            cell_name: self.name.to_string(),
        };
        let answer = node
            .cells()
            .get(request)
            .await
            .map_err(cannot(&node, format!("show the cell {}", self.name)))?;
        let cell = CellView::from(answer.into_inner());
        match self.output.format() {
            format @ (Format::Table | Format::Wide) => {
                let now = session.now();
                let wide = format == Format::Wide;
                let text = describe(&cell, wide, now, &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &cell),
        }
    }
}

fn describe(cell: &CellView, wide: bool, now: Timestamp, printer: &Printer) -> String {
    let usage = &cell.usage;
    let init = cell
        .init_pid
        .map_or("no init".to_owned(), |pid| format!("init {pid}"));
    let allocated = cell.allocated_at.map_or("-".to_owned(), |at| {
        format!("{at} ({} ago)", human::age(Some(at), now))
    });
    let state = match &cell.reason {
        Some(reason) => format!("{}: {reason}", cell.state),
        None => cell.state.to_owned(),
    };
    let mut text = String::new();
    for (label, value) in [
        ("Name", cell.name.clone()),
        ("State", cell.style().paint(&state, printer.color)),
        ("Allocated", allocated),
        (
            "Isolation",
            format!(
                "cgroup {}{}, network {}, root {}, {init}",
                cell.cgroup,
                cell.cgroups.map_or("", |_| " of the host"),
                cell.network,
                cell.root
            ),
        ),
        ("Shares", cell.cpu_shares.to_string()),
        ("Limits", cell.limits.to_string()),
        (
            "Memory",
            format!(
                "{} (peak {})",
                human::bytes(usage.memory_bytes),
                human::bytes(usage.memory_peak_bytes)
            ),
        ),
        (
            "Cpu",
            format!("{} in {} pids", human::cpu_time(usage.cpu_usec), usage.pids),
        ),
        (
            "Io",
            format!(
                "{} read, {} written",
                human::bytes(usage.io_read_bytes),
                human::bytes(usage.io_write_bytes)
            ),
        ),
    ] {
        let _ = writeln!(text, "{label:<11}{value}");
    }
    if !cell.executables.is_empty() {
        let mut table = Table::new(ExecutableView::columns(wide));
        for executable in &cell.executables {
            table.push(executable.row(wide, now));
        }
        let width = if wide {
            Some(usize::MAX)
        } else {
            printer.width
        };
        text.push('\n');
        text += &table.render(width, printer.color, true);
    }
    text
}
