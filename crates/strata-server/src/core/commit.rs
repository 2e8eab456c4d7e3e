//! Transactions: written, and waited for until the tables of this server show
//! them. Records are changed by rules on top of these (`resource.rs`).

use strata_store::{Revision, StoreError, Transaction};
use tokio::time::Instant;

use super::idempotency::NotedEffect;
use super::{Core, Lead};

/// Which server may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    AnyServer,
    Leader,
}

/// The decision of a rule about a record.
pub(crate) enum WriteDecision<T> {
    /// It stays as it is.
    Keep,
    Put(Box<T>),
    Delete,
}

impl<T: PartialEq> WriteDecision<T> {
    pub(crate) fn put(record: T) -> Self {
        Self::Put(Box::new(record))
    }

    /// Writes `next`, unless it is the record as it is.
    pub(crate) fn replace(now: &T, next: T) -> Self {
        match *now == next {
            true => Self::Keep,
            false => Self::put(next),
        }
    }
}

impl Core {
    /// Writes, and waits until the tables show it. What this release does not
    /// know of a record stays in it. What the request of this task is about is
    /// noted with its idempotency key, if it has one.
    pub(crate) async fn commit(
        &self,
        mut transaction: Transaction,
    ) -> Result<Revision, StoreError> {
        self.tables().keep_unknown(&mut transaction)?;
        let noted = NotedEffect::add_to(&mut transaction)?;
        let asked = Instant::now();
        let written = self.0.store.commit(transaction).await;
        let revision = match noted {
            Some(noted) => noted.written(written)?,
            None => written?,
        };
        self.wait_until_applied(revision).await?;
        self.0.freshness.confirm(asked);
        Ok(revision)
    }

    /// As [`Core::commit`], for what only the leader may write.
    pub(crate) async fn commit_as_leader(
        &self,
        mut transaction: Transaction,
    ) -> Result<Revision, StoreError> {
        match self.lead() {
            // One whose lead has run out does not even try.
            Lead::Leading(condition) if self.leads_now() => {
                transaction.conditions.extend(condition);
            }
            _ => {
                return Err(StoreError::Unavailable("this server does not lead".into()));
            }
        }
        self.commit(transaction).await
    }

    /// As [`Core::commit`] or [`Core::commit_as_leader`].
    pub(crate) async fn commit_as(
        &self,
        writer: Writer,
        transaction: Transaction,
    ) -> Result<Revision, StoreError> {
        match writer {
            Writer::AnyServer => self.commit(transaction).await,
            Writer::Leader => self.commit_as_leader(transaction).await,
        }
    }
}
