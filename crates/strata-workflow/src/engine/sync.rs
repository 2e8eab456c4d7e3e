//! What a record means for the queue.

use strata_store::{Change, Entry};

use super::dispatcher::Dispatcher;
use crate::operation::State;
use crate::records::{self, StoredOperation};
use crate::{Operation, OperationId};

impl Dispatcher {
    pub(super) fn sync_all(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(entry) => self.read(entry),
                Change::Deleted { key } => self.remove(key),
            }
        }
    }

    pub(super) fn read(&mut self, entry: &Entry) {
        match records::decode_record(entry) {
            Ok(kept) => {
                self.status.unreadable.remove(&entry.key);
                self.sync(&kept);
            }
            Err(error) => {
                if self.status.unreadable.insert(entry.key.clone()) {
                    tracing::error!(key = entry.key, %error, "operation cannot be read and is not run");
                }
            }
        }
    }

    /// A record is gone.
    pub(super) fn remove(&mut self, key: &str) {
        self.status.unreadable.remove(key);
        let Some(id) = records::id_in(key) else {
            return;
        };
        self.queue.remove(id);
        self.ended.remove(id);
        self.leftovers.remove(&id);
        self.status.unknown.remove(&id);
        self.status.parked.remove(&id);
    }

    /// A record is like this now, or was a moment ago: the task that runs
    /// because of it reads it again first.
    pub(super) fn sync(&mut self, kept: &StoredOperation) {
        let operation = &kept.operation;
        let id = operation.id;
        if let Some(token) = self.tokens.get(&id)
            && operation.cancel.is_some()
        {
            token.cancel();
        }
        if self.queue.is_running(id) {
            return;
        }
        let ready = !self.is_unknown(operation) && !self.status.parked.contains_key(&id);
        let claims = &operation.claims;
        match operation.state {
            // What this program cannot begin blocks no other operation.
            State::Scheduled if !ready => self.queue.remove(id),
            State::Scheduled => self.queue.wait(id, kept.created, claims),
            State::Active { .. } | State::Unwinding { .. } => {
                self.queue.hold(id, kept.created, claims, ready);
            }
            State::Failed { .. } if operation.holds_claims() => {
                let wanted = self.wants_cleanup(id, operation.bookkeeping.cleanups);
                self.queue.hold(id, kept.created, claims, ready && wanted);
            }
            State::Completed { at_ms } | State::Failed { at_ms, .. } => {
                self.queue.remove(id);
                self.leftovers.remove(&id);
                self.ended.insert(id, at_ms);
            }
        }
    }

    /// Whether a caller requested a cleanup since the last check.
    fn wants_cleanup(&mut self, id: OperationId, asked: u64) -> bool {
        let seen = self.leftovers.insert(id, asked);
        asked > seen.unwrap_or(0)
    }

    fn is_unknown(&mut self, operation: &Operation) -> bool {
        let Operation { id, kind, .. } = operation;
        let known = self.registry.find(kind).is_some();
        if known || (operation.has_ended() && !operation.holds_claims()) {
            self.status.unknown.remove(id);
            return false;
        }
        if self.status.unknown.insert(*id, kind.clone()).is_none() {
            tracing::warn!(operation = %id, kind, "operation kind is unknown: record kept, operation not run");
        }
        true
    }
}
