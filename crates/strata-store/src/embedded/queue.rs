//! What waits to be written, bounded by its size.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{LeaseId, Revision, StoreError, Transaction};

/// How much may wait, in bytes. A caller that adds more waits for room.
const ROOM: usize = 32 << 20;

/// What one job takes of the room at least: it has its own cost, too.
const SMALLEST: usize = 512;

/// How much is written at once.
const BATCH_JOBS: usize = 4096;
const BATCH_BYTES: usize = 8 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What is to be done, and the receiver of the result.
#[derive(Debug)]
pub(super) enum Job {
    Commit(Transaction, Reply<Revision>),
    Grant(Duration, Reply<LeaseId>),
    Revoke(LeaseId, Reply<()>),
    /// Alone in its batch: it works on the file, not on the records.
    Rewrite(Reply<()>),
}

/// A job in its place in the queue, which it keeps until it is answered.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) place: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) struct Queue {
    line: Mutex<Line>,
    came: Condvar,
    room: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Line {
    jobs: VecDeque<Queued>,
    // The writer sleeps until so many are there: no caller wakes it before.
    wanted: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            line: Mutex::default(),
            came: Condvar::new(),
            room: Arc::new(Semaphore::new(ROOM / SMALLEST)),
        }
    }

    /// Adds a job of a size, when there is room.
    pub(super) async fn add(&self, job: Job, size: usize) -> Result<(), StoreError> {
        let places = (size / SMALLEST + 1).min(ROOM / SMALLEST);
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let place = self.room.clone().acquire_many_owned(places).await;
        let place = place.map_err(|_| closed())?;
        let mut line = self.line();
        if line.closed {
            return Err(closed());
        }
        line.jobs.push_back(Queued { job, place });
        let enough = line.jobs.len() >= line.wanted;
        drop(line);
        if enough {
            self.came.notify_one();
        }
        Ok(())
    }

    /// All that waits, up to what is written at once. Waits for the first job
    /// until `until`; `None` when the queue is closed and empty.
    pub(super) fn take(&self, until: Option<Instant>) -> Option<Vec<Queued>> {
        let mut line = self.line();
        line.wanted = 1;
        while line.jobs.is_empty() {
            if line.closed {
                return None;
            }
            let Some(until) = until else {
                line = ignore_poison(self.came.wait(line));
                continue;
            };
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            line = ignore_poison(self.came.wait_timeout(line, left)).0;
        }
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while let Some(next) = line.jobs.pop_front() {
            bytes += next.place.num_permits() * SMALLEST;
            jobs.push(next);
            if jobs.len() == BATCH_JOBS || bytes >= BATCH_BYTES {
                break;
            }
        }
        // Busy now: to be woken would only cost the callers.
        line.wanted = usize::MAX;
        Some(jobs)
    }

    /// Waits until so many jobs are there, but not longer than `until`.
    pub(super) fn gather(&self, jobs: usize, until: Instant) {
        let mut line = self.line();
        line.wanted = jobs;
        while line.jobs.len() < jobs && !line.closed {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return;
            };
            line = ignore_poison(self.came.wait_timeout(line, left)).0;
        }
    }

    /// Takes no more; what waits is still written.
    pub(super) fn close(&self) {
        self.line().closed = true;
        self.room.close();
        self.came.notify_all();
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        ignore_poison(self.line.lock())
    }
}

/// That the store is no more.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store was closed".to_owned())
}

fn ignore_poison<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::{Job, Queue, ROOM};
    use crate::{LeaseId, StoreError};

    fn job() -> Job {
        Job::Revoke(LeaseId(1), oneshot::channel().0)
    }

    #[tokio::test]
    async fn full_queue_blocks_until_there_is_room() {
        let queue = Queue::new();
        for _ in 0..8 {
            queue.add(job(), ROOM / 9).await.unwrap();
        }
        let mut waiting = Box::pin(queue.add(job(), ROOM / 4));
        assert_eq!((&mut waiting).now_or_never(), None);
        let taken = queue.take(None).unwrap();
        assert!(taken.len() < 8, "a batch is bounded, too");
        assert_eq!((&mut waiting).now_or_never(), None, "taken is not written");
        drop(taken);
        tokio::time::timeout(Duration::from_secs(10), waiting)
            .await
            .unwrap()
            .unwrap();
        queue.close();
        let late = queue.add(job(), 1).await;
        assert!(matches!(late, Err(StoreError::Unavailable(_))));
        while queue.take(None).is_some() {}
    }
}
