//! The log of the node's own daemon. Its stream gives the history and goes on
//! for ever, without a mark between the two; a moment of silence is the mark.

use std::collections::VecDeque;
use std::time::Duration;

use strata_api::observe::{GetAuraeDaemonLogStreamRequest, LogItem};
use strata_client::NodeClient;

use super::writer::timestamp;
use crate::failure::{Result, cannot};
use crate::session::Session;

/// Pause after which the history is complete: it is in memory on the node and
/// comes without pauses.
const HISTORY_IDLE_TIMEOUT: Duration = Duration::from_millis(300);

pub(super) async fn run(
    session: &mut Session,
    node: &NodeClient,
    follow: bool,
    tail: Option<u32>,
    timestamps: bool,
) -> Result {
    let failed = || cannot(node, "read the daemon's log");
    let request = GetAuraeDaemonLogStreamRequest {};
    let answer = node.observe().get_aurae_daemon_log_stream(request).await;
    let mut items = answer.map_err(failed())?.into_inner();

    let keep = tail.map_or(usize::MAX, |n| n as usize);
    let mut history = VecDeque::new();
    let mut ended = false;
    while let Ok(item) = tokio::time::timeout(HISTORY_IDLE_TIMEOUT, items.message()).await {
        let Some(item) = item.map_err(failed())? else {
            ended = true;
            break;
        };
        history.push_back(item);
        if history.len() > keep {
            history.pop_front();
        }
    }
    let text: String = history.iter().map(|item| line(item, timestamps)).collect();
    session.printer.data(text.as_bytes())?;
    if !follow || ended {
        return Ok(());
    }
    while let Some(item) = session
        .printer
        .unless_gone(items.message())
        .await?
        .map_err(failed())?
    {
        session.printer.data(line(&item, timestamps).as_bytes())?;
    }
    Ok(())
}

fn line(item: &LogItem, timestamps: bool) -> String {
    if timestamps {
        format!(
            "{} {}\n",
            timestamp(item.timestamp.saturating_mul(1000)),
            item.line
        )
    } else {
        format!("{}\n", item.line)
    }
}
