//! One operation as it changes: a view that any caller can take, leave and take
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use strata_store::{Change, Changes, Store, StoreError, Watch};

use crate::records;
use crate::{Operation, OperationId, WorkflowError};

/// How often in a row the view is taken up again when the store does not
/// answer, before that is logged.
const MAX_ATTEMPTS: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The operation as it is, then as it changes. It ends after the operation
/// has, or when it is removed, or with an error.
pub type Snapshots = BoxStream<'static, Result<Operation, WorkflowError>>;

struct View {
    store: Arc<dyn Store>,
    id: OperationId,
    watch: Option<Watch>,
    shown: Option<Operation>,
    over: bool,
}

enum WatchEvent {
    Operation(Box<Operation>),
    Gone,
    Lost,
}

pub(crate) async fn snapshots(
    store: Arc<dyn Store>,
    id: OperationId,
) -> Result<Snapshots, WorkflowError> {
    let mut view = View {
        store,
        id,
        watch: None,
        shown: None,
        over: false,
    };
    let first = view.start_pending().await?;
    let first = first.ok_or(WorkflowError::NotFound { id })?;
    view.note(&first);
    let rest = stream::unfold(view, |mut view| async {
        let item = view.next().await?;
        Some((item, view))
    });
    Ok(stream::iter([Ok(first)]).chain(rest).fuse().boxed())
}

impl View {
    /// Reads the operation and follows it from there.
    async fn start_pending(&mut self) -> Result<Option<Operation>, WorkflowError> {
        let key = records::record_key(self.id);
        let listing = self.store.list(&key).await?;
        let entry = listing.entries.iter().find(|entry| entry.key == key);
        let kept = entry.map(records::decode_record).transpose()?;
        self.watch = Some(self.store.watch(&key, listing.revision).await?);
        Ok(kept.map(|kept| kept.operation))
    }

    fn note(&mut self, operation: &Operation) {
        self.over = operation.has_ended();
        self.shown = Some(operation.clone());
    }

    async fn next(&mut self) -> Option<Result<Operation, WorkflowError>> {
        let mut tries = 0;
        while !self.over {
            let news = match &mut self.watch {
                Some(watch) => latest(watch).await,
                None => self.note_retry(&mut tries).await,
            };
            match news {
                Ok(WatchEvent::Operation(operation)) => {
                    // Taken up again, it may be what was seen last.
                    if self.shown.as_ref() != Some(&operation) {
                        self.note(&operation);
                        return Some(Ok(*operation));
                    }
                }
                Ok(WatchEvent::Gone) => self.over = true,
                Ok(WatchEvent::Lost) => self.watch = None,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    async fn note_retry(&mut self, tries: &mut u32) -> Result<WatchEvent, WorkflowError> {
        match self.start_pending().await {
            Ok(Some(operation)) => Ok(WatchEvent::Operation(Box::new(operation))),
            Ok(None) => Ok(WatchEvent::Gone),
            Err(WorkflowError::Store(
                StoreError::Unavailable(_) | StoreError::Compacted { .. },
            )) if *tries < MAX_ATTEMPTS => {
                *tries += 1;
                tokio::time::sleep(RETRY_INTERVAL).await;
                Ok(WatchEvent::Lost)
            }
            Err(error) => Err(error),
        }
    }
}

/// Waits for a change and takes all that is there already: only the latest
/// counts.
async fn latest(watch: &mut Watch) -> Result<WatchEvent, WorkflowError> {
    let mut news = match watch.next().await {
        Some(Ok(changes)) => read(&changes)?,
        Some(Err(_)) | None => return Ok(WatchEvent::Lost),
    };
    while let Some(more) = watch.next().now_or_never() {
        match more {
            Some(Ok(changes)) => news = read(&changes)?,
            // What was seen is read again with all that follows.
            Some(Err(_)) | None => return Ok(WatchEvent::Lost),
        }
    }
    Ok(news)
}

fn read(changes: &Changes) -> Result<WatchEvent, WorkflowError> {
    match changes.changes.last() {
        Some(Change::Put(entry)) => {
            let kept = records::decode_record(entry)?;
            Ok(WatchEvent::Operation(Box::new(kept.operation)))
        }
        Some(Change::Deleted { .. }) => Ok(WatchEvent::Gone),
        None => Ok(WatchEvent::Lost),
    }
}
