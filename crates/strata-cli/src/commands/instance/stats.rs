//! `strata instance stats`: what instances use of what they may, as their
//! nodes tell it; live with `-w`.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use strata_api::rest::{Claim, Instance, InstanceState, Resources};
use strata_client::rest::RestClient;
use tokio::signal::unix::{SignalKind, signal};

use super::current;
use crate::commands::scope::{ListScope, Scope};
use crate::commands::top::screen::{Screen, keys};
use crate::complete;
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::{self, Column, Format, OutputArgs, Show, Table, TableCell, human};
use crate::printer::terminal_size;
use crate::session::Session;
use crate::values::{Span, object_name};

/// Show resource usage of instances
#[derive(Args, Debug)]
#[command(after_help = "\
The limit follows the slash. On a terminal, q ends -w.

Examples:
  strata instance stats
  strata instance stats web db -w
  strata instance stats -A -o json | jq '.[].usage.memory'")]
pub struct Stats {
    /// Instances: NAME, PROJECT/NAME or ID [default: all that run]
    #[arg(value_name = "NAME", value_parser = object_name, add = complete::instances())]
    names: Vec<String>,

    #[command(flatten)]
    scope: ListScope,

    /// Keep refreshing
    #[arg(short, long)]
    watch: bool,

    /// Refresh interval
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        requires = "watch"
    )]
    interval: Span,

    #[command(flatten)]
    output: OutputArgs,
}

/// What one instance uses.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceUsageRow {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(flatten)]
    resources: Claim,
}

impl Stats {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let format = self.output.format();
        if !self.watch {
            let used = self.sample(&rest).await?;
            return output::rows(session, format, &used, "no instances run");
        }
        let table = matches!(format, Format::Table | Format::Wide);
        if table && session.printer.is_terminal() {
            return self.live(session, &rest).await;
        }
        let mut ticks = tokio::time::interval(self.interval());
        loop {
            session.printer.unless_gone(ticks.tick()).await?;
            let used = self.sample(&rest).await?;
            match format {
                Format::Json | Format::Yaml => output::line(session, format, &used)?,
                _ => output::rows(session, format, &used, "no instances run")?,
            }
            if format == Format::Table {
                session.printer.data(b"\n")?;
            }
        }
    }

    fn interval(&self) -> std::time::Duration {
        self.interval.0.max(std::time::Duration::from_millis(100))
    }

    async fn sample(&self, rest: &RestClient) -> Result<Vec<InstanceUsageRow>> {
        let mut found = Vec::new();
        if self.names.is_empty() {
            let query = self.scope.query();
            let query = query.with("state", InstanceState::Running.as_str());
            found = rest
                .list(&query)
                .await
                .map_err(unable("list the instances"))?;
        }
        let scope: &Scope = self.scope.as_ref();
        for name in &self.names {
            found.push(current(rest, name, scope, "read").await?.object);
        }
        let used = found.into_iter().map(|one: Instance| InstanceUsageRow {
            name: self.scope.name(&one.project, &one.name),
            node: one.node,
            resources: one.resources,
        });
        Ok(used.collect())
    }

    async fn live(&self, session: &mut Session, rest: &RestClient) -> Result {
        let signals = |why: std::io::Error| {
            Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
        };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
        let mut keys = keys();
        let mut ticks = tokio::time::interval(self.interval());
        let mut screen = Screen::enter(session)?;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let used = self.sample(rest).await?;
                    screen.draw(&frame(&used, screen.session()))?;
                }
                key = keys.recv() => if let Some(b'q' | b'Q' | 0x1b) | None = key {
                    return Ok(());
                },
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            }
        }
    }
}

fn frame(used: &[InstanceUsageRow], session: &Session) -> String {
    let now = session.now();
    let sum = used.iter().fold(Resources::default(), |mut sum, one| {
        sum.cpu = sum.cpu.saturating_add(one.resources.usage.cpu);
        sum.memory = sum.memory.saturating_add(one.resources.usage.memory);
        sum
    });
    let mut table = Table::new(InstanceUsageRow::columns(false));
    for one in used {
        table.push(one.row(false, now));
    }
    format!(
        "strata instance stats  {now:.0}  {} instances  {} cpus  memory {}\n\n{}",
        used.len(),
        human::cores(sum.cpu.into()),
        human::megabytes(sum.memory.into()),
        table.render(Some(terminal_size().0), session.printer.color, true)
    )
}

impl Show for InstanceUsageRow {
    fn reference(&self) -> String {
        format!("instance/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::figures("CPU/MAX"),
            Column::figures("MEMORY/MAX"),
            Column::figures("DISK/MAX"),
            Column::new("NODE"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let Claim { usage, max } = &self.resources;
        let of = |words: fn(i64) -> String, used: i32, max: i32| -> TableCell {
            let used = if used == 0 {
                "0".to_owned()
            } else {
                words(used.into())
            };
            format!("{used}/{}", words(max.into())).into()
        };
        vec![
            TableCell::from(&self.name),
            of(human::cores, usage.cpu, max.cpu),
            of(human::megabytes, usage.memory, max.memory),
            of(human::gigabytes, usage.disk, max.disk),
            crate::view::or_dash(self.node.clone()).into(),
        ]
    }
}
