//! `strata pod stats`: what pods use, live on a terminal, a table for each
//! interval elsewhere.

mod rates;

use clap::Args;
use strata_api::strata::v1::{PodStats, PodStatsRequest};
use strata_client::NodeClient;
use tokio::signal::unix::{SignalKind, signal};
use tonic::Streaming;

use self::rates::{Moment, Rate, moment};
use crate::commands::top::screen::{Screen, keys};
use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs, Show as _, Table};
use crate::printer::terminal_size;
use crate::session::Session;
use crate::values::{Span, label_name};

/// What pods use, live
#[derive(Args, Debug)]
#[command(after_help = "\
100 CPU% is one cpu. On a terminal, q ends.

Examples:
  strata pod stats
  strata pod stats web --interval 5s
  strata pod stats --once -o json | jq '.pods[0].memory_bytes'")]
pub struct Stats {
    /// Only this pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: Option<String>,

    /// Between two looks, 100ms to 60s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Span,

    /// One table, and done
    #[arg(long)]
    once: bool,

    /// Go on, which is done anyway
    #[arg(short, long, hide = true, conflicts_with = "once")]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Stats {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = PodStatsRequest {
            name: self.name.clone().unwrap_or_default(),
            interval_ms: Some(self.interval.millis_u32()),
        };
        let answer = node.pods().stats(request).await;
        let looks = Looks {
            stats: answer
                .map_err(cannot(&node, "watch the pods"))?
                .into_inner(),
            node: &node,
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

    async fn print(&self, session: &mut Session, mut looks: Looks<'_>, format: Format) -> Result {
        // The first look has no rates.
        if looks.next().await?.is_none() {
            return Ok(());
        }
        loop {
            let Some(moment) = session.printer.unless_gone(looks.next()).await?? else {
                return Ok(());
            };
            match format {
                Format::Json | Format::Yaml => output::line(session, format, &moment)?,
                _ => output::rows(session, format, &moment.pods, "no pods")?,
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

/// One look after the other.
struct Looks<'a> {
    node: &'a NodeClient,
    stats: Streaming<PodStats>,
    last: Option<PodStats>,
}

impl Looks<'_> {
    async fn next(&mut self) -> Result<Option<Moment>> {
        let message = self.stats.message().await;
        let Some(stats) = message.map_err(cannot(self.node, "watch the pods"))? else {
            return Ok(None);
        };
        let moment = moment(self.last.as_ref(), &stats);
        self.last = Some(stats);
        Ok(Some(moment))
    }
}

async fn live(session: &mut Session, mut looks: Looks<'_>) -> Result {
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

fn frame(moment: &Moment, session: &Session) -> String {
    let now = session.now();
    let at = moment.at.map_or(String::new(), |at| format!("{at:.0}"));
    let cpu: f64 = moment.pods.iter().filter_map(|pod| pod.cpu_percent).sum();
    let memory: u64 = moment.pods.iter().map(|pod| pod.memory_bytes).sum();
    let mut table = Table::new(Rate::columns(false));
    for pod in &moment.pods {
        table.push(pod.row(false, now));
    }
    format!(
        "strata pod stats  {at}  {} pods  cpu {cpu:.1}%  memory {}\n\n{}",
        moment.pods.len(),
        output::human::bytes(memory),
        table.render(Some(terminal_size().0), session.printer.color, true)
    )
}
