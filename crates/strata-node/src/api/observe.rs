//! `observe.Observe`: the published streams of the daemon's log and of the
//! output of its processes.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use strata_api::observe::observe_server::Observe;
use strata_api::observe::{
    GetAuraeDaemonLogStreamRequest, GetSubProcessStreamRequest, LogChannelType, LogItem, Text,
};
use strata_cell::log::{Channel, LogEntry};
use strata_types::{Error, Result};
use tonic::{Request, Response, Status};

use super::status;
use crate::Node;
use crate::logs::{Follow, LogStream, LogWatch};

pub(super) struct ObserveApi {
    node: Node,
    watch: LogWatch,
    log_dir: std::path::PathBuf,
}

type Items = Pin<Box<dyn Stream<Item = Result<LogItem, Status>> + Send>>;

impl ObserveApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            node: node.clone(),
            watch: node.watch.clone(),
            log_dir: node.log_dir.clone(),
        }
    }

    fn sub_process(&self, request: GetSubProcessStreamRequest) -> Result<Items> {
        let channel = match LogChannelType::try_from(request.channel_type) {
            Ok(LogChannelType::ChannelStdout) => Channel::Stdout,
            Ok(LogChannelType::ChannelStderr) => Channel::Stderr,
            Err(_) => {
                let why = format!(
                    "{} is not a channel; 0 is stdout, 1 is stderr",
                    request.channel_type
                );
                return Err(Error::invalid("channel_type", why));
            }
        };
        let pid = request.process_id;
        if pid <= 0 {
            return Err(Error::invalid("process_id", format!("{pid} is not a pid")));
        }
        let run = self.node.by_pid(pid).ok_or_else(|| {
            Error::not_found(format!("this node has started no process with pid {pid}"))
                .in_field("process_id")
        })?;
        let live = Some(Some(run.watch()));
        let follow = Follow {
            dir: run.dir.clone(),
            channel,
            tail: None,
            live,
        };
        Ok(items(follow.start(&self.watch)?, channel))
    }
}

/// Lines as the published document has them: text, and time in seconds.
fn items(stream: LogStream, channel: Channel) -> Items {
    let name = channel.as_str();
    Box::pin(stream.flat_map(move |batch| {
        let (lines, error) = match batch {
            Ok(lines) => (lines, None),
            Err(error) => (Vec::new(), Some(Err(status(error)))),
        };
        let items = lines
            .into_iter()
            .flat_map(move |line| item(name, line))
            .map(Ok);
        stream::iter(items.chain(error))
    }))
}

/// A line, and before it the word of what was lost.
fn item(channel: &'static str, entry: LogEntry) -> impl Iterator<Item = LogItem> {
    let timestamp = i64::try_from(entry.at_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let gap = (entry.lost > 0).then(|| LogItem {
        channel: Text::from_static("strata"),
        line: format!("gap: {} bytes of {channel} are lost here", entry.lost).into(),
        timestamp,
    });
    let line = (!entry.is_gap).then(|| LogItem {
        channel: Text::from_static(channel),
        line: Text::from_lossy(entry.line),
        timestamp,
    });
    gap.into_iter().chain(line)
}

#[tonic::async_trait]
impl Observe for ObserveApi {
    type GetAuraeDaemonLogStreamStream = Items;

    async fn get_aurae_daemon_log_stream(
        &self,
        _request: Request<GetAuraeDaemonLogStreamRequest>,
    ) -> Result<Response<Items>, Status> {
        let dir = self.log_dir.clone();
        let channel = Channel::Daemon;
        let follow = Follow {
            dir,
            channel,
            tail: None,
            live: Some(None),
        };
        let lines = follow.start(&self.watch).map_err(status)?;
        Ok(Response::new(items(lines, channel)))
    }

    type GetSubProcessStreamStream = Items;

    async fn get_sub_process_stream(
        &self,
        request: Request<GetSubProcessStreamRequest>,
    ) -> Result<Response<Items>, Status> {
        self.sub_process(request.into_inner())
            .map(Response::new)
            .map_err(status)
    }
}
