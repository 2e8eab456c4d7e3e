//! `strata top`: what the cells of a node use, live on a terminal, a table
//! for each interval elsewhere.

mod rates;
pub(super) mod screen;

use clap::Args;
use strata_api::strata::v1::{ListCellsResponse, WatchCellsRequest};
use strata_client::NodeClient;
use strata_types::CellName;
use tokio::signal::unix::{SignalKind, signal};
use tonic::Streaming;

use self::rates::{CellSample, Rate, Snapshot, Sort, moment};
use self::screen::Screen;
use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs, Show as _, Table};
use crate::printer::terminal_size;
use crate::session::Session;
use crate::values::{Span, cell_name};

/// Show live resource usage of the cells of a node
#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal: q quits; c, m, i, n sort by CPU, memory, I/O, name. 100 CPU% is
one CPU.

Examples:
  strata top
  strata top --under web --sort memory
  strata top --once -o json | jq '.cells[0]'")]
pub struct Top {
    /// Refresh interval, 100ms to 60s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Span,

    /// Print one table and exit
    #[arg(long)]
    once: bool,

    /// Only this cell and its nested cells
    #[arg(long, value_name = "NAME", value_parser = cell_name)]
    #[arg(add = complete::cells())]
    under: Option<CellName>,

    /// Sort key
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,

    #[command(flatten)]
    output: OutputArgs,
}

impl Top {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = WatchCellsRequest {
            under: self
                .under
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            interval_ms: Some(self.interval.millis_u32()),
        };
        let answer = node.cells().watch(request).await;
        let looks = CellSamples {
            snapshots: answer
                .map_err(cannot(&node, "watch the cells"))?
                .into_inner(),
            node: &node,
            last: None,
        };
        let format = self.output.format();
        let table = matches!(format, Format::Table | Format::Wide);
        if table && session.printer.is_terminal() && !self.once {
            live(session, looks, self.sort).await
        } else {
            self.print(session, looks, format).await
        }
    }

    async fn print(
        &self,
        session: &mut Session,
        mut looks: CellSamples<'_>,
        format: Format,
    ) -> Result {
        // The first look has no rates.
        let mut first = looks.next(self.sort).await?.is_none();
        while !first {
            let Some(moment) = looks.next(self.sort).await? else {
                break;
            };
            match format {
                Format::Json | Format::Yaml => output::line(session, format, &moment)?,
                _ => output::rows(session, format, &moment.cells, "no cells")?,
            }
            first = self.once;
            if !self.once && format == Format::Table {
                session.printer.data(b"\n")?;
            }
        }
        Ok(())
    }
}

/// The samples, one per interval.
struct CellSamples<'a> {
    node: &'a NodeClient,
    snapshots: Streaming<ListCellsResponse>,
    last: Option<Snapshot>,
}

impl CellSamples<'_> {
    async fn next(&mut self, sort: Sort) -> Result<Option<CellSample>> {
        let message = self.snapshots.message().await;
        let Some(response) = message.map_err(cannot(self.node, "watch the cells"))? else {
            return Ok(None);
        };
        let snapshot = Snapshot::from(response);
        let moment = moment(self.last.as_ref(), &snapshot, sort);
        self.last = Some(snapshot);
        Ok(Some(moment))
    }
}

async fn live(session: &mut Session, mut looks: CellSamples<'_>, mut sort: Sort) -> Result {
    let signals = |why: std::io::Error| {
        Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut keys = screen::keys();
    let mut screen = Screen::enter(session)?;
    loop {
        tokio::select! {
            moment = looks.next(sort) => match moment? {
                Some(moment) => screen.draw(&frame(&moment, sort, screen.session()))?,
                None => return Ok(()),
            },
            key = keys.recv() => match key {
                Some(b'q' | b'Q' | 0x1b) | None => return Ok(()),
                Some(b'c') => sort = Sort::Cpu,
                Some(b'm') => sort = Sort::Memory,
                Some(b'i') => sort = Sort::Io,
                Some(b'n') => sort = Sort::Name,
                Some(_) => {}
            },
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

fn frame(moment: &CellSample, sort: Sort, session: &Session) -> String {
    let now = session.now();
    let cpu: f64 = moment.outermost().filter_map(|cell| cell.cpu_percent).sum();
    let memory: u64 = moment.outermost().map(|cell| cell.memory_bytes).sum();
    let running: usize = moment.cells.iter().map(|cell| cell.running).sum();
    let at = moment.at.map_or(String::new(), |at| format!("{at:.0}"));
    let mut table = Table::new(Rate::columns(false));
    for cell in &moment.cells {
        table.push(cell.row(false, now));
    }
    format!(
        "strata top  {at}  {} cells, {running} running  cpu {cpu:.1}%  memory {}  by {}\n\n{}",
        moment.cells.len(),
        output::human::bytes(memory),
        format!("{sort:?}").to_lowercase(),
        table.render(Some(terminal_size().0), session.printer.color, true)
    )
}
