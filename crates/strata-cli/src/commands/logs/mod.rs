//! `strata logs`: what executables wrote, byte for byte. Their stdout goes to
//! stdout and their stderr to stderr, so that a pipe gets what it would have
//! got from the program itself.

mod daemon;
mod log_args;
mod merge;
mod writer;

use clap::Args;
use futures_util::StreamExt as _;
use strata_api::strata::v1::{GetCellRequest, LogLine, ReadLogsRequest};
use strata_client::NodeClient;
use strata_types::{CellName, ExecutableName};
use tonic::Streaming;

pub(crate) use self::log_args::LogsArgs;
use self::writer::LineWriter;
use crate::complete;
use crate::failure::{Exit, Failure, Peer, Result, cannot};
use crate::session::Session;
use crate::values::{Since, cell_name, executable_name};

/// Show the output of executables, or the log of the daemon
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata logs web                       everything its executables wrote
  strata logs web main -f --tail 20
  strata logs web main --since 10m --stderr
  strata logs --daemon -f")]
pub struct Logs {
    /// Name of the cell
    #[arg(value_parser = cell_name, add = complete::cells(), required_unless_present = "daemon")]
    cell: Option<CellName>,

    /// Name of the executable [default: all of the cell]
    #[arg(value_parser = executable_name, add = complete::executables())]
    executable: Option<ExecutableName>,

    /// Show the log of the node daemon instead
    #[arg(long, conflicts_with_all = ["cell", "executable", "since", "stdout", "stderr"])]
    daemon: bool,

    /// Keep streaming until the end
    #[arg(short, long)]
    follow: bool,

    /// Only the last N lines of each executable
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only lines since: 10m, 2h, or an RFC 3339 timestamp
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// Only stdout
    #[arg(long)]
    stdout: bool,

    /// Only stderr
    #[arg(long)]
    stderr: bool,

    /// Prefix each line with its timestamp
    #[arg(short, long)]
    timestamps: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let Some(cell) = &self.cell else {
            return daemon::run(session, &node, self.follow, self.tail, self.timestamps).await;
        };
        let cell = cell.to_string();
        let names = match &self.executable {
            Some(name) => vec![name.to_string()],
            None => executables(&node, &cell).await?,
        };
        if names.is_empty() {
            session
                .printer
                .note(&format!("no executable has run in {cell}"));
            return Ok(());
        }
        let mut streams = Vec::new();
        for name in &names {
            let request = self.request(session, &cell, name);
            streams.push(open(&node, request).await?);
        }
        let prefixes = if names.len() > 1 { names } else { Vec::new() };
        let mut lines = merge::merge(streams, self.follow).ready_chunks(256);
        let mut writer = LineWriter::new(self.timestamps, prefixes);
        while let Some(chunk) = session.printer.unless_gone(lines.next()).await? {
            writer.write(session, &node, &format!("read the logs of {cell}"), chunk)?;
        }
        Ok(())
    }

    fn request(&self, session: &Session, cell: &str, name: &str) -> ReadLogsRequest {
        ReadLogsRequest {
            cell_name: cell.to_owned(),
            executable_name: name.to_owned(),
            stdout: self.stdout,
            stderr: self.stderr,
            follow: self.follow,
            tail: self.tail,
            since_ms: self.since.map(|since| since.millis(session.now())),
        }
    }
}

/// Prints what an executable writes until it ends.
pub(crate) async fn follow(
    session: &mut Session,
    node: &NodeClient,
    cell: &str,
    name: &str,
) -> Result {
    let request = ReadLogsRequest {
        cell_name: cell.to_owned(),
        executable_name: name.to_owned(),
        follow: true,
        ..Default::default()
    };
    let stream = open(node, request).await?;
    let mut lines = merge::merge(vec![stream], true).ready_chunks(256);
    let mut writer = LineWriter::new(false, Vec::new());
    while let Some(chunk) = lines.next().await {
        writer.write(
            session,
            node,
            &format!("read the logs of {cell}/{name}"),
            chunk,
        )?;
    }
    Ok(())
}

/// Prints the lines of one stream until it ends, each to the channel it was
/// written to.
pub(crate) async fn print(
    session: &mut Session,
    peer: &dyn Peer,
    what: &str,
    lines: Streaming<LogLine>,
    timestamps: bool,
) -> Result {
    let mut lines = merge::merge(vec![lines], true).ready_chunks(256);
    let mut writer = LineWriter::new(timestamps, Vec::new());
    while let Some(chunk) = session.printer.unless_gone(lines.next()).await? {
        writer.write(session, peer, what, chunk)?;
    }
    Ok(())
}

async fn open(node: &NodeClient, request: ReadLogsRequest) -> Result<Streaming<LogLine>> {
    let what = format!(
        "read the logs of {}/{}",
        request.cell_name, request.executable_name
    );
    let answer = node.logs().read(request).await;
    Ok(answer.map_err(cannot(node, what))?.into_inner())
}

async fn executables(node: &NodeClient, cell: &str) -> Result<Vec<String>> {
    let request = GetCellRequest {
        cell_name: cell.to_owned(),
    };
    let answer = node
        .cells()
        .get(request)
        .await
        .map_err(cannot(node, format!("read the logs of {cell}")))?;
    let names: Vec<String> = answer
        .into_inner()
        .executables
        .into_iter()
        .map(|executable| executable.name)
        .collect();
    if names.len() > 100 {
        return Err(Failure::new(
            Exit::Refused,
            format!(
                "{} executables have run in {cell}, too many at once",
                names.len()
            ),
        )
        .hint(format!("name one: `strata logs {cell} NAME`")));
    }
    Ok(names)
}
