//! The one thread that writes. It takes all that waits, works it out on top
//! of what is there, writes it at once, and only then shows and answers it.
//!
//! A write costs about as much for a thousand transactions as for one: it is
//! the wait for the disk. So the more callers there are, the more each wait
//! carries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::disk::{Disk, Snapshot};
use super::queue::{Job, Queue, Queued, Reply};
use crate::shared::Shared;
use crate::state::{Batch, Delta, HistoryBounds, State};
use crate::{LeaseId, Revision, StoreError};

/// How long the end of a lease waits after the disk failed, so that a broken
/// disk is not tried without end.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Arc<Queue>,
    pub(super) disk: Disk,
    pub(super) news: watch::Sender<Revision>,
    pub(super) bounds: HistoryBounds,
    pub(super) start: Instant,
}

/// An answer that may be given when the batch is on disk.
enum Answer {
    Commit(Result<Revision, StoreError>, Reply<Revision>),
    Grant(LeaseId, Reply<LeaseId>),
    Revoke(Reply<()>),
    Rewrite(Reply<()>),
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut failed = None;
        loop {
            let ends = self.shared.read().next_end().map(|ends| self.start + ends);
            let until = match failed {
                Some(failed) => ends.map(|ends| ends.max(failed + AFTER_FAILURE)),
                None => ends,
            };
            let Some(jobs) = self.queue.take(until) else {
                return;
            };
            let (count, began) = (jobs.len(), Instant::now());
            failed = self.batch(jobs).err().map(|_| Instant::now());
            // Callers that were just answered often come back at once. To write
            // for the first of them alone would make the others wait twice.
            if count > 1 {
                let max_wait = began.elapsed() / 4;
                self.queue.gather(count / 2, Instant::now() + max_wait);
            }
        }
    }

    fn batch(&mut self, jobs: Vec<Queued>) -> Result<(), StoreError> {
        if self.disk.is_closed()
            && let Err(error) = self.recover(None)
        {
            refuse(jobs, &error);
            return Err(error);
        }
        let (delta, answers) = self.work_out(jobs);
        let written = self.write(delta);
        let is_rewrite = |(answer, _): &(Answer, _)| matches!(answer, Answer::Rewrite(_));
        if written.is_ok() && answers.iter().any(is_rewrite) {
            // The others of the batch are on disk whatever becomes of it.
            let rewritten = self.rewrite();
            for (answer, _place) in answers {
                match answer {
                    Answer::Rewrite(reply) => drop(reply.send(rewritten.clone())),
                    other => give(other, &written),
                }
            }
            return rewritten;
        }
        for (answer, _place) in answers {
            give(answer, &written);
        }
        written
    }

    /// Replaces the file by one without what was overwritten.
    fn rewrite(&mut self) -> Result<(), StoreError> {
        self.disk.rewrite().map_err(|error| {
            tracing::error!(%error, "store file not rewritten");
            StoreError::Broken(error.to_string())
        })
    }

    /// What the jobs come to, and the answers to their callers.
    fn work_out(&self, jobs: Vec<Queued>) -> (Delta, Vec<(Answer, OwnedSemaphorePermit)>) {
        let mut state = self.shared.write();
        let mut batch = state.batch();
        for lease in state.expired(self.start.elapsed()) {
            batch.end(lease);
        }
        let answers = jobs.into_iter().map(|Queued { job, place }| {
            let answer = work(&mut batch, job);
            (answer, place)
        });
        let answers = answers.collect();
        let delta = batch.finish();
        state.set_ending(&delta.ended, true);
        (delta, answers)
    }

    /// To disk, then to memory, then to the watchers.
    fn write(&mut self, delta: Delta) -> Result<(), StoreError> {
        if delta.is_empty() {
            return Ok(());
        }
        let revision = delta.changes.last().map(|last| last.revision);
        if let Err(error) = self.disk.write(&delta) {
            tracing::error!(%error, "store not writable");
            self.shared.write().set_ending(&delta.ended, false);
            // Only the file knows whether the failed write is in it.
            if self.recover(revision) != Ok(true) {
                return Err(StoreError::Broken(error.to_string()));
            }
        }
        self.shared.write().apply(delta, self.start.elapsed());
        if let Some(revision) = revision {
            self.news.send_replace(revision);
        }
        Ok(())
    }

    /// Opens the file again after an error. Returns whether it holds the write
    /// that was under way; else the state becomes what the file holds.
    fn recover(&mut self, under_way: Option<Revision>) -> Result<bool, StoreError> {
        let snapshot = self.disk.reopen();
        let snapshot = snapshot.map_err(|error| StoreError::Broken(error.to_string()))?;
        if Some(snapshot.revision) == under_way {
            return Ok(true);
        }
        let mut state = self.shared.write();
        if state.revision() != snapshot.revision || !state.has_leases(&snapshot.leases) {
            // Watchers cannot receive what happened in between. They find the
            // past dropped, and list.
            let revision = snapshot.revision;
            *state = restored(snapshot, self.bounds, self.start.elapsed());
            drop(state);
            self.news.send_replace(revision);
        }
        tracing::info!("store reopened");
        Ok(false)
    }
}

/// No caller waits for a writer that is gone, even if it panicked.
impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        while self.queue.take(None).is_some() {}
    }
}

/// The state that a file holds.
pub(super) fn restored(snapshot: Snapshot, bounds: HistoryBounds, now: Duration) -> State {
    let Snapshot {
        entries,
        revision,
        leases,
        last_lease,
    } = snapshot;
    State::restored(entries, revision, &leases, last_lease, bounds, now)
}

fn work(batch: &mut Batch<'_>, job: Job) -> Answer {
    match job {
        Job::Commit(transaction, reply) => Answer::Commit(batch.commit(transaction), reply),
        Job::Grant(ttl, reply) => Answer::Grant(batch.grant(ttl), reply),
        Job::Revoke(lease, reply) => {
            batch.end(lease);
            Answer::Revoke(reply)
        }
        Job::Rewrite(reply) => Answer::Rewrite(reply),
    }
}

/// What was worked out holds if it is on disk. Also a conflict is one only
/// then: it may be with what was not written. A caller that does not wait any
/// more needs no answer.
fn give(answer: Answer, written: &Result<(), StoreError>) {
    let written = written.clone();
    match answer {
        Answer::Commit(result, reply) => drop(reply.send(written.and(result))),
        Answer::Grant(lease, reply) => drop(reply.send(written.map(|()| lease))),
        Answer::Revoke(reply) | Answer::Rewrite(reply) => drop(reply.send(written)),
    }
}

fn refuse(jobs: Vec<Queued>, error: &StoreError) {
    for Queued { job, .. } in jobs {
        let error = error.clone();
        match job {
            Job::Commit(_, reply) => drop(reply.send(Err(error))),
            Job::Grant(_, reply) => drop(reply.send(Err(error))),
            Job::Revoke(_, reply) | Job::Rewrite(reply) => drop(reply.send(Err(error))),
        }
    }
}
