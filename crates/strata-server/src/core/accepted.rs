//! Changes of clusters that were accepted and whose operation has not begun.
//!
//! The change is in the cluster's record before the caller is answered, so the
//! status says from then on that the cluster changes. The operation that makes
//! the change removes it when it has begun. The reconciler of clusters begins a
//! change that has no operation, and removes one that came to nothing, with the
//! reason.

use serde::{Deserialize, Serialize};
use strata_store::Transaction;
use strata_types::cluster::{ClusterName, KubernetesVersion, NodePool};
use strata_types::{Error, Label, Result};

use super::clusters::Cluster;
use super::record::{decode, encode};
use super::store_watch::public;
use super::{Core, keys, now_ms};

/// So many changes of a cluster may wait; its deletion always may.
const MAX_ACCEPTED: usize = 32;
/// So many names of deleted clusters are kept, the newest.
const MAX_DELETED: usize = 1000;
/// So many names of deleted pools of one cluster.
const MAX_DELETED_POOLS: usize = 256;

/// A change that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedChange {
    /// Its id: of all operations that are begun for it, one is made.
    pub id: String,
    /// What is to be different.
    pub change: ClusterChange,
    /// The principal that requested it.
    pub asked_by: String,
    /// The operation that makes it; empty before that was begun.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// What is to be different at a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterChange {
    Pools(PoolChange),
    Upgrade(KubernetesVersion),
    Delete,
}

/// What is to be different at the pools of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PoolChange {
    Add(Vec<NodePool>),
    Delete(Vec<String>),
    /// Pools that get so many machines.
    Scale(Vec<(String, u32)>),
}

/// What is kept of a cluster that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletedCluster {
    /// The operation that deleted it.
    operation: String,
    /// When, in Unix milliseconds.
    at_ms: i64,
}

impl Cluster {
    /// Whether it was accepted that it is deleted.
    pub(crate) fn is_to_be_deleted(&self) -> bool {
        let mut accepted = self.accepted.iter();
        accepted.any(|it| it.change == ClusterChange::Delete)
    }

    /// Whether it had a pool of this name that was deleted.
    pub(crate) fn had_pool(&self, name: &str) -> bool {
        self.deleted_pools.iter().any(|it| it == name)
    }

    /// Records the pools that are in `before` and not there any more.
    pub(crate) fn remember_deleted_pools(&mut self, before: &[NodePool]) {
        let gone = before.iter().map(|pool| &pool.name);
        for name in gone {
            let is_here = self.spec.pools.iter().any(|pool| pool.name == *name);
            if !is_here && !self.had_pool(name) {
                self.deleted_pools.push(name.clone());
            }
        }
        let surplus = self.deleted_pools.len().saturating_sub(MAX_DELETED_POOLS);
        self.deleted_pools.drain(..surplus);
    }
}

impl Core {
    /// Writes a change into the record of a cluster that `may` have it. A
    /// deletion that was accepted before is the same one.
    pub(crate) async fn accept_change(
        &self,
        cluster: &Cluster,
        change: ClusterChange,
        by: &str,
        may: impl Fn(&Cluster) -> Result<()>,
    ) -> Result<AcceptedChange> {
        let new = AcceptedChange {
            id: uuid::Uuid::now_v7().to_string(),
            change,
            asked_by: by.to_owned(),
            operation: String::new(),
            at_ms: now_ms(),
        };
        let mut accepted = new.clone();
        let written = self.change_cluster(cluster.name.as_str(), |now| {
            let mut next = now.clone();
            if now.id != cluster.id {
                let why = format!("cluster {} is another one now", now.name);
                return Err(Error::new(strata_types::ErrorKind::Aborted, why));
            }
            may(now)?;
            let mut before = now.accepted.iter();
            let same = before.find(|it| it.change == ClusterChange::Delete);
            if let Some(same) = same.filter(|_| new.change == ClusterChange::Delete) {
                accepted = same.clone();
                return Ok(next);
            }
            if now.accepted.len() >= MAX_ACCEPTED && new.change != ClusterChange::Delete {
                let why = format!("{MAX_ACCEPTED} changes of cluster {} wait", now.name);
                return Err(Error::exhausted(why).with_hint("wait until some are made"));
            }
            accepted = new.clone();
            next.accepted.push(new.clone());
            Ok(next)
        });
        written.await?;
        Ok(accepted)
    }

    /// Notes the operation that makes an accepted change.
    pub(crate) async fn note_operation(
        &self,
        name: &ClusterName,
        id: &str,
        operation: &str,
    ) -> Result<()> {
        let noted = self.change_cluster(name.as_str(), |now| {
            let mut next = now.clone();
            for accepted in next.accepted.iter_mut().filter(|it| it.id == id) {
                operation.clone_into(&mut accepted.operation);
            }
            Ok(next)
        });
        noted.await.map(drop)
    }

    /// An accepted change has begun, or came to nothing. One of a cluster that
    /// is not there any more is gone with it.
    pub(crate) async fn withdraw_change(&self, name: &str, id: &str) -> Result<()> {
        if id.is_empty() {
            return Ok(());
        }
        let withdrawn = self.change_cluster(name, |now| {
            let mut next = now.clone();
            next.accepted.retain(|it| it.id != id);
            Ok(next)
        });
        match withdrawn.await {
            Err(error) if error.kind() != strata_types::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The operation that deleted a cluster of this name; none when there was
    /// none.
    pub(crate) async fn deletion_of(&self, name: &str) -> Result<Option<String>> {
        let Ok(name) = name.parse::<Label>() else {
            return Ok(None);
        };
        let key = keys::deleted_cluster(&name);
        let found = self.store().get(&key).await.map_err(public)?;
        let deleted = found.map(|found| decode::<DeletedCluster>(&key, &found.value));
        Ok(deleted.transpose()?.map(|it| it.operation))
    }

    /// Adds to the removal of a cluster that its name is kept, and that the
    /// oldest of many such names are not.
    pub(super) async fn record_deletion(
        &self,
        transaction: Transaction,
        name: &ClusterName,
        operation: &str,
    ) -> Result<Transaction> {
        let deleted = DeletedCluster {
            operation: operation.to_owned(),
            at_ms: now_ms(),
        };
        let mut transaction = transaction.put(keys::deleted_cluster(name), encode(&deleted)?);
        let listing = self.store().list(keys::DELETED_CLUSTERS).await;
        let entries = listing.map_err(public)?.entries;
        let mut stored: Vec<(i64, String)> = Vec::new();
        for entry in entries {
            let at_ms = decode::<DeletedCluster>(&entry.key, &entry.value).map_or(0, |it| it.at_ms);
            stored.push((at_ms, entry.key));
        }
        stored.sort_unstable();
        for (_, key) in stored.iter().take(stored.len().saturating_sub(MAX_DELETED)) {
            transaction = transaction.delete(key.clone());
        }
        Ok(transaction)
    }
}
