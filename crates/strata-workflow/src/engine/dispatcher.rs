//! The task that follows the records and starts what may run.
//!
//! What it knows comes from the store: a listing, then every change. When the
//! changes break off it lists again. What runs is not touched by that; its own
//! task reports its end. What a record means for the queue is in `sync.rs`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_store::{Changes, Watch};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::run::run;
use super::{End, Settings, Status};
use crate::journal::{JournalError, JournalWriter};
use crate::operation::State;
use crate::parking::Parking;
use crate::queue::Queue;
use crate::records::{self, RECORDS, StoredOperation};
use crate::retention::{self, Ended};
use crate::{Operation, OperationId, Registry, WorkflowError};

/// Between two attempts to list when the store does not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

type Outcome = Result<StoredOperation, JournalError>;

pub(super) struct Dispatcher {
    pub(super) writer_handle: JournalWriter,
    pub(super) registry: Arc<Registry>,
    settings: Settings,
    pub(super) queue: Queue,
    runs: JoinSet<Outcome>,
    tasks: HashMap<Id, OperationId>,
    pub(super) tokens: HashMap<OperationId, CancellationToken>,
    /// Failed operations with leftovers: how many requests to clean up are seen.
    pub(super) leftovers: BTreeMap<OperationId, u64>,
    pub(super) ended: Ended,
    /// Answers whether the engine still leads.
    deletions: JoinSet<bool>,
    pub(super) status: Status,
    tell: watch::Sender<Status>,
    parking: Arc<Parking>,
}

impl Dispatcher {
    pub(super) fn new(
        writer_handle: JournalWriter,
        registry: Arc<Registry>,
        settings: Settings,
        tell: watch::Sender<Status>,
    ) -> Self {
        Self {
            writer_handle,
            registry,
            settings,
            queue: Queue::default(),
            runs: JoinSet::new(),
            tasks: HashMap::new(),
            tokens: HashMap::new(),
            leftovers: BTreeMap::new(),
            ended: Ended::default(),
            deletions: JoinSet::new(),
            status: Status::default(),
            tell,
            parking: Arc::default(),
        }
    }

    /// Reads all records and follows them from there.
    pub(super) async fn start_pending(&mut self) -> Result<Watch, WorkflowError> {
        let listing = self.writer_handle.store.list(RECORDS).await?;
        let watch = self
            .writer_handle
            .store
            .watch(RECORDS, listing.revision)
            .await?;
        let there: Vec<_> = listing.entries.iter().map(|it| it.key.as_str()).collect();
        let known = self.queue.ids().into_iter().chain(self.ended.ids());
        let key = |id: &OperationId| records::record_key(*id);
        let gone = known.filter(|id| there.binary_search(&key(id).as_str()).is_err());
        for id in gone.collect::<Vec<_>>() {
            self.remove(&records::record_key(id));
        }
        for entry in &listing.entries {
            self.read(entry);
        }
        self.publish();
        Ok(watch)
    }

    /// Works until it is instructed to stop or is deposed.
    pub(super) async fn work(mut self, watch: Watch, stop: CancellationToken) -> End {
        let end = tokio::select! {
            () = stop.cancelled() => End::Shutdown,
            () = self.follow(watch) => End::Deposed,
        };
        // At an await point each: what was not recorded happens again.
        self.runs.shutdown().await;
        self.deletions.shutdown().await;
        end
    }

    /// Returns when it is deposed.
    async fn follow(&mut self, watch: Watch) {
        let mut watch = Some(watch);
        let mut cleanup = timer(self.settings.cleanup_every);
        let mut forget = timer(self.settings.forget_every);
        let parking = Arc::clone(&self.parking);
        loop {
            self.start();
            self.publish();
            tokio::select! {
                () = parking.changed() => {}
                news = next(&mut watch) => match news {
                    Some(changes) => self.sync_all(&changes.changes),
                    None => watch = self.restart_stopped().await,
                },
                Some(over) = self.runs.join_next_with_id() => {
                    if !self.stopped(over) {
                        return;
                    }
                }
                _ = cleanup.tick() => {
                    for id in self.leftovers.keys() {
                        self.queue.make_ready(*id);
                    }
                }
                _ = forget.tick() => self.delete(),
                Some(leads) = self.deletions.join_next() => {
                    if matches!(leads, Ok(false)) {
                        return;
                    }
                }
            }
            if self.ended.is_over(&self.settings.retention) {
                self.delete();
            }
        }
    }

    async fn restart_stopped(&mut self) -> Option<Watch> {
        match self.start_pending().await {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(%error, "cannot follow the operations; trying again");
                tokio::time::sleep(RETRY_INTERVAL).await;
                None
            }
        }
    }

    fn start(&mut self) {
        // Those that wait take no place.
        while let Some(id) = self
            .queue
            .next(self.settings.at_once + self.parking.waiting())
        {
            let cancel = CancellationToken::new();
            let work = run(
                self.writer_handle.clone(),
                id,
                Arc::clone(&self.registry),
                cancel.clone(),
                self.settings.progress_every,
                Arc::clone(&self.parking),
            );
            let task = self.runs.spawn(work);
            self.tasks.insert(task.id(), id);
            self.tokens.insert(id, cancel);
        }
    }

    /// A run is over. Reports whether this engine still leads.
    fn stopped(&mut self, over: Result<(Id, Outcome), JoinError>) -> bool {
        let (task, outcome) = match over {
            Ok((task, outcome)) => (task, outcome.map_err(|error| (error.to_string(), error))),
            Err(error) => {
                let gone = JournalError::Crashed;
                (error.id(), Err((gone.to_string(), gone)))
            }
        };
        let Some(id) = self.tasks.remove(&task) else {
            return true;
        };
        self.tokens.remove(&id);
        self.queue.stopped(id);
        match outcome {
            Ok(kept) => {
                notify_ended(&kept.operation);
                self.sync(&kept);
            }
            Err((_, JournalError::Deposed)) => return false,
            Err((_, JournalError::Gone(id))) => self.remove(&records::record_key(id)),
            Err((reason, _)) => {
                tracing::error!(operation = %id, reason, "an operation cannot go on");
                self.status.parked.insert(id, reason);
            }
        }
        true
    }

    fn delete(&mut self) {
        if !self.deletions.is_empty() {
            return;
        }
        let due = self
            .ended
            .due(&self.settings.retention, self.writer_handle.clock.now_ms());
        let writer_handle = self.writer_handle.clone();
        if !due.is_empty() {
            self.deletions.spawn(delete_expired(writer_handle, due));
        }
    }

    fn publish(&mut self) {
        self.status.running = self.queue.running();
        self.status.waiting = self.queue.waiting();
        self.status.leftovers = self.leftovers.keys().copied().collect();
        self.tell.send_if_modified(|reported| {
            let changed = *reported != self.status;
            if changed {
                *reported = self.status.clone();
            }
            changed
        });
    }
}

/// Removes these. Reports whether the engine still leads.
async fn delete_expired(writer_handle: JournalWriter, ids: Vec<OperationId>) -> bool {
    for id in ids {
        match retention::delete(&writer_handle, id).await {
            Ok(()) => {}
            Err(WorkflowError::Store(error)) if writer_handle.is_deposed(&error) => return false,
            Err(error) => {
                tracing::warn!(operation = %id, %error, "expired operation not deleted");
                // Not at once again: whatever it is, it lasts.
                tokio::time::sleep(RETRY_INTERVAL).await;
                break;
            }
        }
    }
    true
}

fn notify_ended(operation: &Operation) {
    let (id, kind) = (operation.id, &operation.kind);
    match &operation.state {
        State::Completed { .. } => tracing::info!(operation = %id, kind, "operation completed"),
        State::Failed { reason, .. } if operation.leftovers().is_empty() => {
            tracing::info!(operation = %id, kind, %reason, "operation failed");
        }
        State::Failed { reason, .. } => {
            let left = operation.leftovers();
            tracing::warn!(operation = %id, kind, %reason, ?left, "operation failed, with leftovers");
        }
        State::Scheduled | State::Active { .. } | State::Unwinding { .. } => {}
    }
}

/// The next changes; `None` when they broke off.
async fn next(watch: &mut Option<Watch>) -> Option<Changes> {
    watch.as_mut()?.next().await?.ok()
}

fn timer(every: Duration) -> Interval {
    let every = every.max(Duration::from_millis(1));
    let mut timer = tokio::time::interval_at(Instant::now() + every, every);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}
