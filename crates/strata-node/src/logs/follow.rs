//! A log as a stream of batches of lines.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use strata_cell::RunRecord;
use strata_cell::log::{Channel, LogEntry, LogReader, Read};
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::{mpsc, watch};

use super::LogWatch;
use super::watch::Subscription;
use crate::blocking::blocking;
use crate::cells::RunView;

/// Batches a reader may be behind before its file reads stop: back-pressure
/// reaches the reader of the file, never the writer.
const BATCHES: usize = 4;

pub(crate) struct Follow {
    pub(crate) dir: PathBuf,
    pub(crate) channel: Channel,
    /// Only the last lines of what is there.
    pub(crate) tail: Option<u32>,
    /// Go on when the end is reached: until the run is over, or forever where
    /// there is none.
    pub(crate) live: Option<Option<watch::Receiver<RunView>>>,
}

impl Follow {
    /// Starts reading. Where the history begins and ends is settled when this
    /// returns: a caller that has its stream finds what is written from then on
    /// in it. Ends by itself when the stream is dropped.
    pub(crate) fn start(self, watch: &LogWatch) -> Result<LogStream> {
        // Before the first read: nothing that is added later goes unnoticed.
        let news = match &self.live {
            Some(_) => Some(watch.subscribe(&self.dir).map_err(failed)?),
            None => None,
        };
        let reader = blocking(|| match self.tail {
            Some(lines) => LogReader::from_tail(&self.dir, self.channel, lines)?.until_now(),
            None => LogReader::from_start(&self.dir, self.channel)?.until_now(),
        })
        .map_err(failed)?;
        let (sender, batches) = mpsc::channel(BATCHES);
        spawn_detached("log-stream", async move {
            if let Err(error) = self.run(reader, news, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(LogStream { batches })
    }

    async fn run(
        mut self,
        mut reader: LogReader,
        mut news: Option<Subscription>,
        sender: &mpsc::Sender<Result<Vec<LogEntry>>>,
    ) -> Result<()> {
        let mut is_history = true;
        loop {
            // Whether it was over before this pass: only then is the end of
            // the files the end of the log.
            let is_over = self.is_over();
            loop {
                let mut batch = Vec::new();
                let read = blocking(|| reader.read(&mut batch)).map_err(failed)?;
                if !batch.is_empty() && sender.send(Ok(batch)).await.is_err() {
                    return Ok(());
                }
                if read == Read::CaughtUp {
                    break;
                }
            }
            let was_history = std::mem::take(&mut is_history);
            // A follower reads on after its history, also if the run ended since.
            let is_last = is_over && !(was_history && self.live.is_some());
            if is_last {
                let mut batch = Vec::new();
                reader.end(blocking(|| self.lost()), &mut batch);
                if !batch.is_empty() && sender.send(Ok(batch)).await.is_err() {
                    return Ok(());
                }
            }
            // An empty batch marks the end of the history.
            if was_history && sender.send(Ok(Vec::new())).await.is_err() {
                return Ok(());
            }
            if is_last {
                return Ok(());
            }
            if was_history {
                reader.read_on();
                continue;
            }
            let Some(news) = &mut news else { return Ok(()) };
            tokio::select! {
                () = news.changed() => {}
                () = ended(&mut self.live) => {}
                () = sender.closed() => return Ok(()),
            }
        }
    }

    /// What could not be stored of the run's output. The daemon's own log has
    /// no end at which it could be reported.
    fn lost(&self) -> u64 {
        match self.channel {
            Channel::Daemon => 0,
            channel => RunRecord::lost_bytes(&self.dir, channel).unwrap_or(0),
        }
    }

    fn is_over(&self) -> bool {
        match &self.live {
            None => true,
            Some(None) => false,
            Some(Some(run)) => run.borrow().is_over(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found("the log is gone, and its cell with it"),
        _ => Error::internal(format!("cannot read the log: {error}")),
    }
}

/// Waits for the end of the run, if there is one to wait for.
async fn ended(live: &mut Option<Option<watch::Receiver<RunView>>>) {
    match live {
        Some(Some(run)) => {
            if run.wait_for(RunView::is_over).await.is_err() {
                // The cell was freed and its files are gone.
                *live = None;
            }
        }
        _ => std::future::pending().await,
    }
}

pub(crate) struct LogStream {
    pub(super) batches: mpsc::Receiver<Result<Vec<LogEntry>>>,
}

impl Stream for LogStream {
    type Item = Result<Vec<LogEntry>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(context)
    }
}
