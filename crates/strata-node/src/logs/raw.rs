//! A log as it was written, byte for byte: what a terminal shows has no lines
//! to wait for.

use std::io;
use std::path::Path;

use bytes::Bytes;
use strata_cell::log::{Channel, LogReader};
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::{mpsc, watch};

use super::LogWatch;
use crate::blocking::blocking;
use crate::cells::RunView;

/// Pieces that a reader may be behind.
const CHANNEL_CAPACITY: usize = 4;

/// Reads the output of a run from its last `tail` lines on, until it is over.
/// Ends by itself when the answer is dropped.
pub(crate) fn follow_raw(
    dir: &Path,
    tail: u32,
    mut run: watch::Receiver<RunView>,
    watch: &LogWatch,
) -> Result<mpsc::Receiver<Result<Bytes>>> {
    let failed = |error: io::Error| Error::internal(format!("cannot read the log: {error}"));
    // Before the first read: nothing that is added later goes unnoticed.
    let mut news = watch.subscribe(dir).map_err(failed)?;
    let mut reader =
        blocking(|| LogReader::from_tail(dir, Channel::Stdout, tail)).map_err(failed)?;
    let (sender, pieces) = mpsc::channel(CHANNEL_CAPACITY);
    spawn_detached("raw-log-stream", async move {
        loop {
            // Only when it was over before is the end of the file the end.
            let is_over = run.borrow().is_over();
            loop {
                let piece = match blocking(|| reader.read_raw()) {
                    Ok(None) => break,
                    Ok(Some(piece)) => Ok(piece),
                    Err(error) => Err(failed(error)),
                };
                let is_last = piece.is_err();
                if sender.send(piece).await.is_err() || is_last {
                    return;
                }
            }
            if is_over {
                return;
            }
            tokio::select! {
                () = news.changed() => {}
                ended = async { run.wait_for(RunView::is_over).await.is_ok() } => {
                    if !ended {
                        return;
                    }
                }
                () = sender.closed() => return,
            }
        }
    });
    Ok(pieces)
}
