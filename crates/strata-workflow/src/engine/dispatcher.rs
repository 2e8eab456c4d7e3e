//! The task that follows the records and starts what may run.
//!
//! What it knows comes from the store: a listing, then every change. When the
//! changes break off it lists again. What runs is not touched by that; its
//! end is told by its own task. What a record means for the queue is in
//! `learn.rs`.

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
use crate::journal::{JournalError, Pen};
use crate::operation::State;
use crate::parking::Parking;
use crate::queue::Queue;
use crate::records::{self, Kept, RECORDS};
use crate::retention::{self, Ended};
use crate::{Operation, OperationId, Registry, WorkflowError};

/// Between two attempts to list when the store does not answer.
const PAUSE: Duration = Duration::from_millis(500);

type Outcome = Result<Kept, JournalError>;

pub(super) struct Dispatcher {
    pub(super) pen: Pen,
    pub(super) registry: Arc<Registry>,
    settings: Settings,
    pub(super) queue: Queue,
    runs: JoinSet<Outcome>,
    tasks: HashMap<Id, OperationId>,
    pub(super) tokens: HashMap<OperationId, CancellationToken>,
    /// Failed operations with leftovers: how many wishes to clean up are seen.
    pub(super) leftovers: BTreeMap<OperationId, u64>,
    pub(super) ended: Ended,
    /// Answers whether the engine still leads.
    forgetting: JoinSet<bool>,
    pub(super) status: Status,
    tell: watch::Sender<Status>,
    parking: Arc<Parking>,
}

impl Dispatcher {
    pub(super) fn new(
        pen: Pen,
        registry: Arc<Registry>,
        settings: Settings,
        tell: watch::Sender<Status>,
    ) -> Self {
        Self {
            pen,
            registry,
            settings,
            queue: Queue::default(),
            runs: JoinSet::new(),
            tasks: HashMap::new(),
            tokens: HashMap::new(),
            leftovers: BTreeMap::new(),
            ended: Ended::default(),
            forgetting: JoinSet::new(),
            status: Status::default(),
            tell,
            parking: Arc::default(),
        }
    }

    /// Reads all records and follows them from there.
    pub(super) async fn take_up(&mut self) -> Result<Watch, WorkflowError> {
        let listing = self.pen.store.list(RECORDS).await?;
        let watch = self.pen.store.watch(RECORDS, listing.revision).await?;
        let there: Vec<_> = listing.entries.iter().map(|it| it.key.as_str()).collect();
        let known = self.queue.ids().into_iter().chain(self.ended.ids());
        let key = |id: &OperationId| records::record_key(*id);
        let gone = known.filter(|id| there.binary_search(&key(id).as_str()).is_err());
        for id in gone.collect::<Vec<_>>() {
            self.unlearn(&records::record_key(id));
        }
        for entry in &listing.entries {
            self.read(entry);
        }
        self.publish();
        Ok(watch)
    }

    /// Works until it is told to stop or is deposed.
    pub(super) async fn work(mut self, watch: Watch, stop: CancellationToken) -> End {
        let end = tokio::select! {
            () = stop.cancelled() => End::Shutdown,
            () = self.follow(watch) => End::Deposed,
        };
        // At an await point each: what was not recorded happens again.
        self.runs.shutdown().await;
        self.forgetting.shutdown().await;
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
                    Some(changes) => self.learn_all(&changes.changes),
                    None => watch = self.take_up_again().await,
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
                _ = forget.tick() => self.forget(),
                Some(leads) = self.forgetting.join_next() => {
                    if matches!(leads, Ok(false)) {
                        return;
                    }
                }
            }
            if self.ended.is_over(&self.settings.retention) {
                self.forget();
            }
        }
    }

    async fn take_up_again(&mut self) -> Option<Watch> {
        match self.take_up().await {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(%error, "cannot follow the operations; trying again");
                tokio::time::sleep(PAUSE).await;
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
                self.pen.clone(),
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

    /// A run is over. Tells whether this engine still leads.
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
                tell_end(&kept.operation);
                self.learn(&kept);
            }
            Err((_, JournalError::Deposed)) => return false,
            Err((_, JournalError::Gone(id))) => self.unlearn(&records::record_key(id)),
            Err((reason, _)) => {
                tracing::error!(operation = %id, reason, "an operation cannot go on");
                self.status.parked.insert(id, reason);
            }
        }
        true
    }

    fn forget(&mut self) {
        if !self.forgetting.is_empty() {
            return;
        }
        let due = self
            .ended
            .due(&self.settings.retention, self.pen.clock.now_ms());
        let pen = self.pen.clone();
        if !due.is_empty() {
            self.forgetting.spawn(forget_all(pen, due));
        }
    }

    fn publish(&mut self) {
        self.status.running = self.queue.running();
        self.status.waiting = self.queue.waiting();
        self.status.leftovers = self.leftovers.keys().copied().collect();
        self.tell.send_if_modified(|told| {
            let changed = *told != self.status;
            if changed {
                *told = self.status.clone();
            }
            changed
        });
    }
}

/// Forgets these. Tells whether the engine still leads.
async fn forget_all(pen: Pen, ids: Vec<OperationId>) -> bool {
    for id in ids {
        match retention::forget(&pen, id).await {
            Ok(()) => {}
            Err(WorkflowError::Store(error)) if pen.is_deposed(&error) => return false,
            Err(error) => {
                tracing::warn!(operation = %id, %error, "cannot forget an operation");
                // Not at once again: whatever it is, it lasts.
                tokio::time::sleep(PAUSE).await;
                break;
            }
        }
    }
    true
}

fn tell_end(operation: &Operation) {
    let (id, kind) = (operation.id, &operation.kind);
    match &operation.state {
        State::Completed { .. } => tracing::info!(operation = %id, kind, "completed"),
        State::Failed { reason, .. } if operation.leftovers().is_empty() => {
            tracing::info!(operation = %id, kind, %reason, "failed");
        }
        State::Failed { reason, .. } => {
            let left = operation.leftovers();
            tracing::warn!(operation = %id, kind, %reason, ?left, "failed, with leftovers");
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
