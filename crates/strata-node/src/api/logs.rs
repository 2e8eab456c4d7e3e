//! `strata.v1.Logs`: the output of an executable by its name.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _};
use strata_api::strata::v1;
use strata_cell::log::Channel;
use strata_types::{CellName, Error, ExecutableName, Result};
use tonic::{Request, Response, Status};

use super::status;
use crate::cells::Executable;
use crate::clock::ms;
use crate::logs::{Follow, LogWatch, merge};
use crate::{Cells, Node};

/// The longest tail: it is held in memory until its beginning is known.
const MAX_TAIL: u32 = 100_000;

pub(super) struct LogsApi {
    cells: Cells,
    watch: LogWatch,
}

pub(super) type Lines = Pin<Box<dyn Stream<Item = Result<v1::LogLine, Status>> + Send>>;

impl LogsApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            cells: node.cells.clone(),
            watch: node.watch.clone(),
        }
    }

    fn read(&self, request: &v1::ReadLogsRequest) -> Result<Lines> {
        let cell = CellName::from_field("cell_name", &request.cell_name)?;
        let name = ExecutableName::from_field("executable_name", &request.executable_name)?;
        let run = self.cells.executable(&cell, &name)?;
        let wanted = LineRange {
            stdout: request.stdout,
            stderr: request.stderr,
            tail: request.tail,
            since_ms: request.since_ms,
            follow: request.follow,
        };
        lines(&run, &self.watch, wanted)
    }
}

/// Which lines of a run are requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRange {
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tail: Option<u32>,
    pub(super) since_ms: Option<i64>,
    pub(super) follow: bool,
}

/// The lines of a run: history first, then live on request.
pub(super) fn lines(run: &Executable, watch: &LogWatch, wanted: LineRange) -> Result<Lines> {
    if let Some(tail) = wanted.tail.filter(|tail| *tail > MAX_TAIL) {
        return Err(Error::invalid(
            "tail",
            format!("is {tail}; {MAX_TAIL} is the most, and without it all lines come"),
        ));
    }
    let both = wanted.stdout == wanted.stderr;
    let channels = [
        (Channel::Stdout, wanted.stdout),
        (Channel::Stderr, wanted.stderr),
    ];
    let streams = channels
        .into_iter()
        .filter(|(_, asked)| *asked || both)
        .map(|(channel, _)| {
            let follow = Follow {
                dir: run.dir.clone(),
                channel,
                tail: wanted.tail,
                live: wanted.follow.then(|| Some(run.watch())),
            };
            Ok((channel, follow.start(watch)?))
        });
    let since_ms = wanted.since_ms.unwrap_or(i64::MIN);
    let tail = wanted.tail.map(|tail| tail as usize);
    let lines = merge(streams.collect::<Result<_>>()?, tail).filter_map(move |line| {
        let line = match line {
            Ok((_, entry)) if ms(entry.at_ns) < since_ms && !entry.is_gap => None,
            Ok((channel, entry)) => Some(Ok(v1::LogLine {
                channel: channel_of(channel).into(),
                line: entry.line,
                written_at_ms: ms(entry.at_ns),
                lost_bytes: entry.lost,
                is_gap: entry.is_gap,
            })),
            Err(error) => Some(Err(status(error))),
        };
        std::future::ready(line)
    });
    Ok(Box::pin(lines))
}

fn channel_of(channel: Channel) -> v1::LogChannel {
    match channel {
        Channel::Stdout => v1::LogChannel::Stdout,
        Channel::Stderr => v1::LogChannel::Stderr,
        Channel::Daemon => v1::LogChannel::Unspecified,
    }
}

#[tonic::async_trait]
impl v1::logs_server::Logs for LogsApi {
    type ReadStream = Lines;

    async fn read(&self, request: Request<v1::ReadLogsRequest>) -> Result<Response<Lines>, Status> {
        self.read(request.get_ref())
            .map(Response::new)
            .map_err(status)
    }
}
