//! The engine: runs operations, as long as this program leads.
//!
//! One task, the dispatcher, follows the records in the store and decides by
//! the queue which operations run; every operation that runs has a task of its
//! own.

mod attempt;
mod dispatcher;
mod run;
mod settings;
mod status;
mod sync;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

pub use settings::Settings;
pub use status::{End, Status};

use crate::journal::JournalWriter;
use crate::{Operations, WorkflowError};
use dispatcher::Dispatcher;

/// An engine at work. Dropping it stops it as [`Workflow::shutdown`] does, but
/// does not wait for that.
pub struct Workflow {
    operations: Operations,
    status: watch::Receiver<Status>,
    ended: watch::Receiver<Option<End>>,
    stop: DropGuard,
}

impl Workflow {
    /// Begins to run the operations of a store: those that were interrupted
    /// go on with the step whose end was not recorded.
    pub async fn open(operations: Operations, settings: Settings) -> Result<Self, WorkflowError> {
        let writer_handle = JournalWriter {
            store: operations.store.clone(),
            clock: operations.clock.clone(),
            fence: settings.fence.clone(),
            writer: Uuid::now_v7(),
        };
        let stop = CancellationToken::new();
        let (tell_status, status) = watch::channel(Status::default());
        let (tell_end, ended) = watch::channel(None);
        let registry = operations.registry.clone();
        let mut dispatcher = Dispatcher::new(writer_handle, registry, settings, tell_status);
        let records = dispatcher.start_pending().await?;
        let stopped = stop.clone();
        // A task that waits for its end notices a panic as a crash.
        strata_tasks::spawn_detached("operation-dispatcher", async move {
            let end = dispatcher.work(records, stopped).await;
            tell_end.send_replace(Some(end));
        });
        Ok(Self {
            operations,
            status,
            ended,
            stop: stop.drop_guard(),
        })
    }

    /// The handle by which callers submit, show and cancel operations.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// What the engine does, and what it cannot do.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until the engine has ended, and reports why.
    pub async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(End::Crashed),
            Err(_) => End::Crashed,
        }
    }

    /// Stops. Steps that run are abandoned at an await point; the operations
    /// go on when an engine is opened again.
    pub async fn shutdown(self) {
        let Self { ended, stop, .. } = self;
        drop(stop);
        let mut ended = ended;
        // An error means that the task is gone: it has ended, too.
        let _ = ended.wait_for(Option::is_some).await;
    }
}
