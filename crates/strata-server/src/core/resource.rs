//! What the nouns of the control plane have in common. A noun declares once
//! what it is called, where its records are in the store and in memory, and
//! which further keys belong to a record. From the declaration follow
//!
//! - look-up by key, with the error for one that is not there ([`Core::find`]);
//! - compare-and-set by a rule ([`Core::change`]);
//! - lists and watches of the REST API (`api/rest/watch.rs`).
//!
//! What differs between nouns is in the file of each noun.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, WorkloadId};
use strata_types::{Error, Label, Result};

use super::commit::{WriteDecision, Writer};
use super::store_watch::public;
use super::tables::{RecordChange, TableChange, Tables, Versioned};
use super::{Cluster, Core, Instance, Machine, Node, Project, Workload, encode, keys};

/// How often a rule is evaluated again after concurrent changes.
const MAX_ATTEMPTS: usize = 32;
/// How much of a key that was asked for is repeated in an error.
const MAX_SHOWN_KEY: usize = 140;

/// Records by key, in the order of the keys.
pub(crate) type Rows<R> = BTreeMap<<R as Resource>::Key, Arc<Versioned<R>>>;

/// A noun of the control plane whose records every server has in memory.
pub(crate) trait Resource: Clone + PartialEq + Serialize + Send + Sync + 'static {
    /// The noun, as the command line and messages have it.
    const NOUN: &'static str;
    /// What its records are listed by.
    type Key: Ord + Clone + Display + Send + Sync + 'static;

    fn key(&self) -> &Self::Key;
    /// The key of the record in the store.
    fn store_key(key: &Self::Key) -> String;
    fn rows(tables: &Tables) -> &Rows<Self>;
    /// The change, if it is to a record of this noun.
    fn change_of(change: TableChange) -> Option<RecordChange<Self>>;

    /// Adds the further keys of a record, such as the one that holds its name,
    /// to the transaction that writes `next`, or deletes the record.
    fn write_index(transaction: Transaction, _now: &Self, _next: Option<&Self>) -> Transaction {
        transaction
    }

    /// Whether a key of the store is one of those that hold names.
    fn is_name(_store_key: &str) -> bool {
        false
    }
}

/// Declares the parts of a [`Resource`] that are the same for all nouns.
macro_rules! resource {
    ($record:ident, $noun:literal, $key:ty, $field:ident, $rows:ident, $store_key:path $({ $($more:tt)* })?) => {
        impl Resource for $record {
            const NOUN: &'static str = $noun;
            type Key = $key;

            fn key(&self) -> &$key {
                &self.$field
            }

            fn store_key(key: &$key) -> String {
                $store_key(key)
            }

            fn rows(tables: &Tables) -> &Rows<Self> {
                &tables.$rows
            }

            fn change_of(change: TableChange) -> Option<RecordChange<Self>> {
                match change {
                    TableChange::$record(change) => Some(change),
                    _ => None,
                }
            }

            $($($more)*)?
        }
    };
}

resource!(Instance, "instance", InstanceId, id, instances, keys::instance {
    fn write_index(transaction: Transaction, now: &Self, next: Option<&Self>) -> Transaction {
        let name = |one: &Self| keys::instance_name(&one.project, &one.name);
        match next.map(|next| (name(next), next)) {
            None => transaction.delete(name(now)),
            Some((new, _)) if new == name(now) => transaction,
            Some((new, next)) => transaction
                .if_absent(&*new)
                .delete(name(now))
                .put(new, next.id.as_str().to_owned()),
        }
    }

    fn is_name(store_key: &str) -> bool {
        store_key.starts_with(keys::INSTANCE_NAMES)
    }
});
resource!(
    Workload,
    "workload",
    WorkloadId,
    id,
    workloads,
    keys::workload
);
resource!(Node, "node", String, name, nodes, keys::node);
resource!(Project, "project", Label, name, projects, keys::project);
resource!(Machine, "machine", Label, id, machines, keys::machine);
resource!(Cluster, "cluster", Label, name, clusters, keys::cluster);

impl Core {
    /// A record by its key.
    pub(crate) fn get<R, Q>(&self, key: &Q) -> Option<Arc<Versioned<R>>>
    where
        R: Resource<Key: Borrow<Q>>,
        Q: Ord + ?Sized,
    {
        R::rows(&self.tables()).get(key).cloned()
    }

    /// A record that has to be there.
    pub(crate) fn find<R, Q>(&self, key: &Q) -> Result<Arc<Versioned<R>>>
    where
        R: Resource<Key: Borrow<Q>>,
        Q: Ord + Display + ?Sized,
    {
        self.get(key).ok_or_else(|| not_found::<R>(key))
    }

    /// All records of a noun, in the order of their keys.
    pub(crate) fn all<R: Resource>(&self) -> Vec<Arc<Versioned<R>>> {
        R::rows(&self.tables()).values().cloned().collect()
    }

    /// Changes a record by a rule: the rule is evaluated on the record as the
    /// tables show it, and what it decides is written on the condition that the
    /// record is still the same. After a conflict the rule is evaluated again,
    /// once the tables show what was in the way; so the rule must have no
    /// effects. The result is the record as it was written here, even if it has
    /// been changed again since; none if there is no such record (any more).
    pub(crate) async fn change<R: Resource>(
        &self,
        writer: Writer,
        key: &R::Key,
        rule: impl FnMut(&Versioned<R>) -> Result<WriteDecision<R>>,
    ) -> Result<Option<Arc<Versioned<R>>>> {
        self.change_while(writer, key, rule, Some).await
    }

    /// As [`Core::change`], for as long as something else holds: `condition`
    /// adds to the transaction what that is, or answers that it does not hold
    /// any more. Then nothing is written.
    pub(crate) async fn change_while<R: Resource>(
        &self,
        writer: Writer,
        key: &R::Key,
        mut rule: impl FnMut(&Versioned<R>) -> Result<WriteDecision<R>>,
        mut condition: impl FnMut(Transaction) -> Option<Transaction>,
    ) -> Result<Option<Arc<Versioned<R>>>> {
        let store_key = R::store_key(key);
        for _ in 0..MAX_ATTEMPTS {
            let Some(now) = self.get::<R, R::Key>(key) else {
                return Ok(None);
            };
            let next = match rule(&now)? {
                WriteDecision::Keep => return Ok(Some(now)),
                WriteDecision::Put(next) => Some(*next),
                WriteDecision::Delete => None,
            };
            let unchanged = Transaction::new().if_unchanged(&*store_key, now.revision);
            let Some(unchanged) = condition(unchanged) else {
                return Ok(Some(now));
            };
            let transaction = R::write_index(unchanged, &now, next.as_ref());
            let transaction = match &next {
                Some(next) => transaction.put(&*store_key, encode(next)?),
                None => transaction.delete(&*store_key),
            };
            match self.commit_as(writer, transaction).await {
                Ok(revision) => {
                    return Ok(next.map(|record| Arc::new(Versioned { record, revision })));
                }
                Err(StoreError::Conflict { key }) if R::is_name(&key) => {
                    return Err(Error::already_exists("the name is taken").in_field("name"));
                }
                Err(StoreError::Conflict { key }) if key == store_key => {
                    let entry = self.0.store.get(&key).await.map_err(public)?;
                    let changed = entry.map_or(now.revision + 1, |entry| entry.changed);
                    self.wait_until_applied(changed).await.map_err(public)?;
                }
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        let why = format!("{} {key} is changed concurrently too often", R::NOUN);
        Err(Error::unavailable(why))
    }
}

/// The error for a record that is not there.
pub(crate) fn not_found<R: Resource>(key: &(impl Display + ?Sized)) -> Error {
    let key: String = key.to_string().chars().take(MAX_SHOWN_KEY).collect();
    Error::not_found(format!("there is no {} {key}", R::NOUN))
        .with_hint(format!("list them: strata {} list", R::NOUN))
}
