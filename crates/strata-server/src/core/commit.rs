//! Writing: a record is read, changed by a rule, and written if nobody wrote
//! it meanwhile; otherwise the rule is asked again.

use std::sync::Arc;
use strata_store::{Revision, StoreError, Transaction};
use strata_types::instance::InstanceId;
use strata_types::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::follow::public;
use super::record::{Instance, encode};
use super::tables::Kept;
use super::{Core, Lead, keys};

/// How often a rule is asked again when others are quicker.
const TRIES: usize = 32;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// Any server.
    Anybody,
    /// Only the one that leads.
    Leader,
}

/// What a rule says of a record.
pub(crate) enum Verdict<T> {
    /// It stays as it is.
    Keep,
    /// It becomes this.
    Put(Box<T>),
    /// It goes.
    Delete,
}

impl<T> Verdict<T> {
    pub(crate) fn put(record: T) -> Self {
        Self::Put(Box::new(record))
    }
}

impl Core {
    /// Writes, and waits until the tables show it. What this release does not
    /// know of a record stays in it.
    pub(crate) async fn commit(
        &self,
        mut transaction: Transaction,
    ) -> Result<Revision, StoreError> {
        self.tables().keep_unknown(&mut transaction)?;
        let asked = Instant::now();
        let revision = self.0.store.commit(transaction).await?;
        self.settle(revision).await?;
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

    /// Changes an instance by a rule. The answer is how it is then; none when
    /// there is no such instance (any more).
    pub(crate) async fn change_instance(
        &self,
        id: &InstanceId,
        rule: impl FnMut(&Kept<Instance>) -> Result<Verdict<Instance>>,
    ) -> Result<Option<Arc<Kept<Instance>>>> {
        self.change_instance_as(As::Anybody, id, rule).await
    }

    /// The same, for whom only the leader may act as.
    pub(crate) async fn change_instance_as(
        &self,
        who: As,
        id: &InstanceId,
        mut rule: impl FnMut(&Kept<Instance>) -> Result<Verdict<Instance>>,
    ) -> Result<Option<Arc<Kept<Instance>>>> {
        for _ in 0..TRIES {
            let Some(now) = self.tables().instances.get(id).cloned() else {
                return Ok(None);
            };
            let key = keys::instance(id);
            let transaction = Transaction::new().if_unchanged(&*key, now.revision);
            let transaction = match rule(&now)? {
                Verdict::Keep => return Ok(Some(now)),
                Verdict::Put(next) => rename(transaction, &now, &next)?.put(key, encode(&*next)?),
                Verdict::Delete => transaction
                    .delete(key)
                    .delete(keys::instance_name(&now.project, &now.name)),
            };
            let written = match who {
                As::Anybody => self.commit(transaction).await,
                As::Leader => self.commit_as_leader(transaction).await,
            };
            match written {
                Ok(_) => return Ok(self.tables().instances.get(id).cloned()),
                Err(StoreError::Conflict { key: lost }) => {
                    self.moved_on(&lost, id, now.revision).await?;
                }
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::new(
            ErrorKind::Aborted,
            format!("{id} is changed by others faster than by this request"),
        ))
    }

    /// Waits until the tables show what was in the way.
    async fn moved_on(&self, lost: &str, id: &InstanceId, seen: Revision) -> Result<()> {
        if lost != keys::instance(id) {
            // The new name was taken meanwhile.
            return Err(Error::already_exists("the name is taken").in_field("name"));
        }
        let listed = self.0.store.get(lost).await.map_err(public)?;
        let revision = listed.map_or(seen + 1, |entry| entry.changed);
        self.settle(revision).await.map_err(public)?;
        Ok(())
    }
}

fn rename(transaction: Transaction, now: &Instance, next: &Instance) -> Result<Transaction> {
    if (&now.project, &now.name) == (&next.project, &next.name) {
        return Ok(transaction);
    }
    let (old, new) = (
        keys::instance_name(&now.project, &now.name),
        keys::instance_name(&next.project, &next.name),
    );
    Ok(transaction
        .if_absent(&*new)
        .delete(old)
        .put(new, next.id.as_str().to_owned()))
}
