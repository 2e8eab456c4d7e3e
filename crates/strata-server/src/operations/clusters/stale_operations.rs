//! Stale operations: operations that ended without clearing their state in the
//! cluster record. An operation is stale when it was abandoned with leftovers
//! it could not undo, or when its record is missing because the store was
//! restored from an older export.
//!
//! `Cluster::work` names the operation that owns the cluster. While a stale
//! operation is named there, no other change may start, so its state is
//! cleared: by the next operation that holds the claim of the cluster
//! ([`Clusters::take_over`]), or by the reconciler
//! ([`Clusters::clear_stale`]). Clearing is a compare-and-set on the same
//! operation id, so an operation that is still running is never cleared.

use strata_types::{ErrorKind, Result};
use strata_workflow::{Filter, Kind as _, Operation, OperationId, WorkflowError};

use super::{Clusters, DeleteCluster, activity, machines, scale};
use crate::core::{Cluster, ClusterFailure, Work, now_ms};
use crate::operations::public;

impl Clusters {
    /// For an operation that starts: it holds the exclusive claim of the
    /// cluster, so work recorded for another operation is stale.
    pub(super) async fn take_over(&self, name: &str, operation: &str) -> Result<()> {
        // A half-created cluster cannot be resumed by another operation.
        let is_over = |now: &Cluster| now.operation != operation && now.work != Work::Creating;
        self.clear_stale_work(name, is_over).await
    }

    /// Clears the recorded work of a stale operation, if the record still names
    /// that operation.
    pub(crate) async fn clear_stale(&self, cluster: &Cluster) -> Result<()> {
        if matches!(cluster.work, Work::Idle | Work::Deleting)
            || !self.is_over(&cluster.operation).await
        {
            return Ok(());
        }
        let same = |now: &Cluster| {
            now.id == cluster.id && now.operation == cluster.operation && now.work == cluster.work
        };
        self.clear_stale_work(cluster.name.as_str(), same).await
    }

    /// Whether an operation has ended and holds no claims. False when its
    /// record cannot be read.
    async fn is_over(&self, operation: &str) -> bool {
        let Ok(id) = operation.parse::<OperationId>() else {
            return false;
        };
        let Ok(operations) = self.operations() else {
            return false;
        };
        match operations.get(id).await {
            Ok(found) => found.has_ended() && !found.holds_claims(),
            Err(WorkflowError::NotFound { .. }) => true,
            Err(_) => false,
        }
    }

    async fn clear_stale_work(&self, name: &str, is_over: impl Fn(&Cluster) -> bool) -> Result<()> {
        let mut stored = Vec::new();
        let cleared = self.core.lead_cluster(name, |now| {
            stored.clear();
            if matches!(now.work, Work::Idle | Work::Deleting) || !is_over(now) {
                return Ok(now.clone());
            }
            let next = self.rolled_back(now);
            let stays = |id: &&String| next.member(id).is_some_and(|it| it.joined);
            stored.extend(now.leaving.iter().filter(stays).cloned());
            Ok(next)
        });
        match cleared.await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => drop(other?),
        }
        // A node that was to go and stays takes pods again.
        for node in stored {
            let facts = self.facts(name).await?;
            if let Err(error) = self.driver.cordon(&facts, &node, false).await {
                tracing::warn!(cluster = name, node, %error, "cluster node stays cordoned");
            }
        }
        Ok(())
    }

    /// As if what is marked had been undone, as far as records go. A machine on
    /// which something was begun stays, and is released by the remediation of
    /// the cluster.
    fn rolled_back(&self, now: &Cluster) -> Cluster {
        let mut next = match now.work {
            Work::Scaling => scale::without_plan(self, now, &scale::planned_change(now)),
            _ => now.clone(),
        };
        let chosen = machines::chosen(&next);
        next.members.retain(|member| {
            let id = member.machine.as_str();
            self.is_up(id) || !chosen.iter().any(|it| it == id)
        });
        (next.scaled_from, next.leaving) = (Vec::new(), Vec::new());
        next.rollback_snapshot.clear();
        next.failure.get_or_insert_with(|| ClusterFailure {
            what: what(now.work).into(),
            why: "it was abandoned".into(),
            at_ms: now_ms(),
        });
        next.work = Work::Idle;
        next
    }

    /// Before something else is begun: what an earlier operation could not undo
    /// is written in the record too, and cleaned up by the remediation of the
    /// cluster. Only the rollback from a version cannot be taken over: while
    /// the cluster does not serve, that may be what brings it up again, and
    /// half a rollback is no state to go on from.
    pub(super) async fn abandon_blocking(&self, cluster: &Cluster, by: &str) -> Result<()> {
        match self.observed(cluster).serves && cluster.rollback_snapshot.is_empty() {
            true => self.abandon_leftovers(cluster.name.as_str(), by).await,
            false => Ok(()),
        }
    }

    /// Gives up what operations at a cluster could not undo.
    pub(super) async fn abandon_leftovers(&self, name: &str, by: &str) -> Result<()> {
        let operations = self.operations()?;
        let stuck = Filter {
            claim: Some(format!("cluster/{name}")),
            leftovers: true,
            ..Filter::default()
        };
        let stuck = operations.list(&stuck).await;
        for one in stuck.map_err(|error| public(&error))? {
            match operations.abandon(one.id, by).await {
                // It has come to its end meanwhile.
                Ok(_) | Err(WorkflowError::NothingLeft { .. } | WorkflowError::NotFound { .. }) => {
                }
                Err(error) => return Err(public(&error)),
            }
        }
        Ok(())
    }

    /// A deletion waits for no operation that cannot end: what was cancelled
    /// for it and could not be undone then goes with the cluster.
    pub(crate) async fn unblock_deletions(&self) -> Result<()> {
        let operations = self.operations()?;
        let waits = Filter {
            kind: Some(DeleteCluster::NAME.into()),
            ended: Some(false),
            ..Filter::default()
        };
        let waits = operations.list(&waits).await;
        let waits = waits.map_err(|error| public(&error))?.into_iter();
        for one in waits.filter(|one| !one.holds_claims()) {
            if let Some(name) = cluster_of(&one) {
                self.abandon_leftovers(name, &one.owner).await?;
            }
        }
        Ok(())
    }
}

fn cluster_of(operation: &Operation) -> Option<&str> {
    let mut claims = operation.claims.iter();
    claims.find_map(|claim| claim.key.strip_prefix("cluster/"))
}

const fn what(work: Work) -> &'static str {
    match work {
        Work::Idle => "what was under way",
        Work::Creating => activity::CREATE,
        Work::Scaling => activity::SCALE,
        Work::Healing => activity::REPLACE,
        Work::Upgrading { .. } => activity::UPGRADE,
        Work::Restoring => activity::RESTORE,
        Work::Deleting => activity::DELETE,
    }
}
