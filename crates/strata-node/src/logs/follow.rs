//! A log as a stream of batches of lines.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use strata_cell::RunRecord;
use strata_cell::log::{Channel, LogEntry, LogReader, Read};
use strata_types::{Error, Result};
use tokio::sync::{mpsc, watch};

use super::LogWatch;
use crate::blocking::blocking;
use crate::cells::RunView;

/// Batches a reader may be behind before its file reads stop: back-pressure
/// reaches the reader of the file, never the writer.
const BATCHES: usize = 4;

/// What to read.
pub(crate) struct Follow {
    pub(crate) folder: PathBuf,
    pub(crate) channel: Channel,
    /// Only the last lines of what is there.
    pub(crate) tail: Option<u32>,
    /// Go on when the end is reached: until the run is over, or for ever
    /// where there is none.
    pub(crate) live: Option<Option<watch::Receiver<RunView>>>,
}

impl Follow {
    /// Starts reading. Ends by itself when the stream is dropped.
    pub(crate) fn start(self, watch: &LogWatch) -> LogStream {
        let (sender, batches) = mpsc::channel(BATCHES);
        let watch = watch.clone();
        tokio::spawn(async move {
            if let Err(error) = self.run(&watch, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        LogStream { batches }
    }

    async fn run(
        mut self,
        watch: &LogWatch,
        sender: &mpsc::Sender<Result<Vec<LogEntry>>>,
    ) -> Result<()> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::not_found("the log is gone, and its cell with it"),
            _ => Error::internal(format!("cannot read the log: {error}")),
        };
        let mut is_history = true;
        // Before the first read: nothing that is added later goes unnoticed.
        let mut news = match &self.live {
            Some(_) => Some(watch.subscribe(&self.folder).map_err(failed)?),
            None => None,
        };
        let mut reader = blocking(|| match self.tail {
            Some(lines) => LogReader::from_tail(&self.folder, self.channel, lines),
            None => LogReader::from_start(&self.folder, self.channel),
        })
        .map_err(failed)?;
        if self.live.is_none() {
            reader = blocking(|| reader.until_now()).map_err(failed)?;
        }
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
            if is_over {
                let mut batch = Vec::new();
                reader.end(blocking(|| self.lost()), &mut batch);
                if !batch.is_empty() && sender.send(Ok(batch)).await.is_err() {
                    return Ok(());
                }
            }
            // An empty batch is the word that the history ends here.
            if std::mem::take(&mut is_history) && sender.send(Ok(Vec::new())).await.is_err() {
                return Ok(());
            }
            if is_over {
                return Ok(());
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
    /// no end at which it could be said.
    fn lost(&self) -> u64 {
        match self.channel {
            Channel::Daemon => 0,
            channel => RunRecord::lost_bytes(&self.folder, channel).unwrap_or(0),
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

/// Batches of lines.
pub(crate) struct LogStream {
    batches: mpsc::Receiver<Result<Vec<LogEntry>>>,
}

impl Stream for LogStream {
    type Item = Result<Vec<LogEntry>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(context)
    }
}
