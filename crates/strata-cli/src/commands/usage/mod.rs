//! What pods, or virtual machines, use: live on a terminal, a table for each
//! interval elsewhere.

mod rates;

use clap::Args;
use futures_util::{Stream, StreamExt as _};
use strata_api::strata::v1::PodStats;
use strata_client::NodeClient;
use tokio::signal::unix::{SignalKind, signal};
use tonic::Status;

use self::rates::{Rate, UsageSample, moment};
use crate::commands::top::screen::{Screen, keys};
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs, Show as _, Table};
use crate::printer::terminal_size;
use crate::session::Session;
use crate::values::Span;

/// Refresh flags.
#[derive(Args, Debug)]
pub(super) struct SampleArgs {
    /// Refresh interval, 100ms to 60s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Span,

    /// Print one table and exit
    #[arg(long)]
    once: bool,

    /// Keep refreshing (the default)
    #[arg(short, long, hide = true, conflicts_with = "once")]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl SampleArgs {
    /// Milliseconds between two looks, for the request.
    pub(super) fn interval_ms(&self) -> Option<u32> {
        Some(self.interval.millis_u32())
    }

    /// Prints what is seen until there is no more to see.
    pub(super) async fn show<S>(
        self,
        session: &mut Session,
        node: &NodeClient,
        noun: &'static str,
        stats: S,
    ) -> Result
    where
        S: Stream<Item = std::result::Result<PodStats, Status>> + Unpin,
    {
        let looks = UsageSamples {
            node,
            noun,
            stats,
            last: None,
        };
        let format = self.output.format();
        let table = matches!(format, Format::Table | Format::Wide);
        if table && session.printer.is_terminal() && !self.once {
            live(session, looks).await
        } else {
            self.print(session, looks, format).await
        }
    }

    async fn print<S>(
        &self,
        session: &mut Session,
        mut looks: UsageSamples<'_, S>,
        format: Format,
    ) -> Result
    where
        S: Stream<Item = std::result::Result<PodStats, Status>> + Unpin,
    {
        // The first look has no rates.
        if looks.next().await?.is_none() {
            return Ok(());
        }
        let empty = format!("no {}s", looks.noun);
        loop {
            let Some(moment) = session.printer.unless_gone(looks.next()).await?? else {
                return Ok(());
            };
            match format {
                Format::Json | Format::Yaml => output::line(session, format, &moment)?,
                _ => output::rows(session, format, &moment.rates, &empty)?,
            }
            if self.once {
                return Ok(());
            }
            if format == Format::Table {
                session.printer.data(b"\n")?;
            }
        }
    }
}

/// The samples, one per interval.
struct UsageSamples<'a, S> {
    node: &'a NodeClient,
    noun: &'static str,
    stats: S,
    last: Option<PodStats>,
}

impl<S> UsageSamples<'_, S>
where
    S: Stream<Item = std::result::Result<PodStats, Status>> + Unpin,
{
    async fn next(&mut self) -> Result<Option<UsageSample>> {
        let what = format!("watch the {}s", self.noun);
        let Some(stats) = self.stats.next().await else {
            return Ok(None);
        };
        let stats = stats.map_err(cannot(self.node, what))?;
        let moment = moment(self.noun, self.last.as_ref(), &stats);
        self.last = Some(stats);
        Ok(Some(moment))
    }
}

async fn live<S>(session: &mut Session, mut looks: UsageSamples<'_, S>) -> Result
where
    S: Stream<Item = std::result::Result<PodStats, Status>> + Unpin,
{
    let signals = |why: std::io::Error| {
        Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut keys = keys();
    let mut screen = Screen::enter(session)?;
    loop {
        tokio::select! {
            moment = looks.next() => match moment? {
                Some(moment) => screen.draw(&frame(&moment, screen.session()))?,
                None => return Ok(()),
            },
            key = keys.recv() => if let Some(b'q' | b'Q' | 0x1b) | None = key {
                return Ok(());
            },
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

fn frame(moment: &UsageSample, session: &Session) -> String {
    let now = session.now();
    let at = moment.at.map_or(String::new(), |at| format!("{at:.0}"));
    let cpu: f64 = moment.rates.iter().filter_map(|pod| pod.cpu_percent).sum();
    let memory: u64 = moment.rates.iter().map(|pod| pod.memory_bytes).sum();
    let noun = moment.noun;
    let mut table = Table::new(Rate::columns(false));
    for pod in &moment.rates {
        table.push(pod.row(false, now));
    }
    format!(
        "strata {noun} stats  {at}  {} {noun}s  cpu {cpu:.1}%  memory {}\n\n{}",
        moment.rates.len(),
        output::human::bytes(memory),
        table.render(Some(terminal_size().0), session.printer.color, true)
    )
}
