//! One operation as it changes: a view that anybody can take, leave and take
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use strata_store::{Change, Changes, Store, StoreError, Watch};

use crate::records;
use crate::{Operation, OperationId, WorkflowError};

/// How often in a row the view is taken up again when the store does not
/// answer, before that is said.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// The operation as it is, then as it changes. It ends after the operation
/// has, or when it is forgotten, or with an error.
pub type Snapshots = BoxStream<'static, Result<Operation, WorkflowError>>;

struct View {
    store: Arc<dyn Store>,
    id: OperationId,
    watch: Option<Watch>,
    shown: Option<Operation>,
    over: bool,
}

enum News {
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
    let first = view.take_up().await?;
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
    async fn take_up(&mut self) -> Result<Option<Operation>, WorkflowError> {
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
                None => self.again(&mut tries).await,
            };
            match news {
                Ok(News::Operation(operation)) => {
                    // Taken up again, it may be what was seen last.
                    if self.shown.as_ref() != Some(&operation) {
                        self.note(&operation);
                        return Some(Ok(*operation));
                    }
                }
                Ok(News::Gone) => self.over = true,
                Ok(News::Lost) => self.watch = None,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    async fn again(&mut self, tries: &mut u32) -> Result<News, WorkflowError> {
        match self.take_up().await {
            Ok(Some(operation)) => Ok(News::Operation(Box::new(operation))),
            Ok(None) => Ok(News::Gone),
            Err(WorkflowError::Store(
                StoreError::Unavailable(_) | StoreError::Compacted { .. },
            )) if *tries < TRIES => {
                *tries += 1;
                tokio::time::sleep(PAUSE).await;
                Ok(News::Lost)
            }
            Err(error) => Err(error),
        }
    }
}

/// Waits for a change and takes all that is there already: only the latest
/// counts.
async fn latest(watch: &mut Watch) -> Result<News, WorkflowError> {
    let mut news = match watch.next().await {
        Some(Ok(changes)) => read(&changes)?,
        Some(Err(_)) | None => return Ok(News::Lost),
    };
    while let Some(more) = watch.next().now_or_never() {
        match more {
            Some(Ok(changes)) => news = read(&changes)?,
            // What was seen is read anew with all that follows.
            Some(Err(_)) | None => return Ok(News::Lost),
        }
    }
    Ok(news)
}

fn read(changes: &Changes) -> Result<News, WorkflowError> {
    match changes.changes.last() {
        Some(Change::Put(entry)) => {
            let kept = records::decode_record(entry)?;
            Ok(News::Operation(Box::new(kept.operation)))
        }
        Some(Change::Deleted { .. }) => Ok(News::Gone),
        None => Ok(News::Lost),
    }
}
