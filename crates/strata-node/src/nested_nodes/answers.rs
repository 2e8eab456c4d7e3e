//! Waiting for a new machine: it is there when its node answers.

use std::sync::Arc;
use std::time::Duration;

use strata_api::strata::v1::GetNodeInfoRequest;
use strata_cell::log::{Channel, LogReader, Read};
use strata_client::{NodeClient, Target};
use strata_types::{Error, Result};
use tokio::time::{Instant, sleep, timeout};

use crate::blocking::blocking;
use crate::cells::Executable;

/// How long a node may take until it answers: a fraction of a second on an idle
/// host, more than half a minute on an emulated one with much to do. One that
/// ends is noticed at once, so this bounds only a node that hangs.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long one try may take: its port is open before it serves.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries while no process listens.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// So much of its output is reported when it does not.
const LOG_TAIL_LINES: usize = 8;

/// Comes back when the machine's node answers.
pub(super) async fn wait(target: &Target, main: &Arc<Executable>) -> Result<()> {
    tokio::select! {
        answer = until_answer(target) => answer.map_err(|why| {
            Error::unavailable(format!(
                "its node does not answer at {target} within {READY_TIMEOUT:?} ({why}); it wrote: {}",
                log_tail(main)
            ))
        }),
        view = main.ended() => {
            let how = view.ending.map(|ending| ending.to_string()).unwrap_or_default();
            Err(Error::unavailable(format!(
                "it ended before its node answered ({how}); it wrote: {}",
                log_tail(main)
            )))
        }
    }
}

async fn until_answer(target: &Target) -> Result<(), String> {
    let end = Instant::now() + READY_TIMEOUT;
    loop {
        let why = match timeout(PROBE_TIMEOUT, ask(target)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(_) => "it takes too long".to_owned(),
        };
        if Instant::now() >= end {
            return Err(why);
        }
        sleep(RETRY_INTERVAL).await;
    }
}

async fn ask(target: &Target) -> Result<(), String> {
    let node = NodeClient::connect(target)
        .await
        .map_err(|error| error.to_string())?;
    let answer = node.node().get_info(GetNodeInfoRequest {}).await;
    answer
        .map(drop)
        .map_err(|status| node.error(&status).to_string())
}

/// The end of what it wrote.
fn log_tail(main: &Executable) -> String {
    blocking(|| {
        let mut lines = Vec::new();
        for channel in [Channel::Stdout, Channel::Stderr] {
            if let Ok(mut reader) = LogReader::from_start(&main.dir, channel) {
                while let Ok(Read::Some) = reader.read(&mut lines) {}
                reader.finish(&mut lines);
            }
        }
        let first = lines.len().saturating_sub(LOG_TAIL_LINES);
        let texts: Vec<_> = lines[first..]
            .iter()
            .map(|line| String::from_utf8_lossy(&line.line))
            .collect();
        match texts.join("; ") {
            text if text.is_empty() => "nothing".to_owned(),
            text => text,
        }
    })
}
