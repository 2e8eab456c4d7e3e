//! What operations left that are over and did not come to an end of their own:
//! given up with what they could not undo, or lost with a store that was put
//! back. The mark of such a one would keep everybody else from the cluster for
//! ever, and so would what it holds.

use strata_types::{ErrorKind, Result};
use strata_workflow::{Filter, Kind as _, Operation, OperationId, WorkflowError};

use super::{Clusters, DeleteCluster, machines, scale};
use crate::core::{Cluster, ClusterFailure, Work, now_ms};
use crate::operations::public;

impl Clusters {
    /// For an operation that begins: whoever runs has the cluster to itself,
    /// so what is still marked as another's is over.
    pub(super) async fn take_over(&self, name: &str, operation: &str) -> Result<()> {
        // One that is half built is not gone on with.
        let is_over = |now: &Cluster| now.operation != operation && now.work != Work::Creating;
        self.clear_mark(name, is_over).await
    }

    /// Clears the mark of an operation that is over, if it is still that one's.
    pub(crate) async fn clear_abandoned(&self, cluster: &Cluster) -> Result<()> {
        if matches!(cluster.work, Work::Idle | Work::Deleting)
            || !self.is_over(&cluster.operation).await
        {
            return Ok(());
        }
        let same = |now: &Cluster| {
            now.id == cluster.id && now.operation == cluster.operation && now.work == cluster.work
        };
        self.clear_mark(cluster.name.as_str(), same).await
    }

    /// Whether an operation is over for good. Nothing is said of one that
    /// cannot be looked at.
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

    async fn clear_mark(&self, name: &str, is_over: impl Fn(&Cluster) -> bool) -> Result<()> {
        let mut kept = Vec::new();
        let cleared = self.core.lead_cluster(name, |now| {
            kept.clear();
            if matches!(now.work, Work::Idle | Work::Deleting) || !is_over(now) {
                return Ok(now.clone());
            }
            let next = self.without_mark(now);
            let stays = |id: &&String| next.member(id).is_some_and(|it| it.joined);
            kept.extend(now.leaving.iter().filter(stays).cloned());
            Ok(next)
        });
        match cleared.await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => drop(other?),
        }
        // Whoever was to go and stays takes pods again.
        for node in kept {
            let facts = self.facts(name).await?;
            if let Err(error) = self.driver.cordon(&facts, &node, false).await {
                tracing::warn!(cluster = name, node, %error, "it stays, and takes no pods yet");
            }
        }
        Ok(())
    }

    /// As if what is marked had been undone, as far as records go. A machine
    /// on which something was begun stays, and is given back by whoever heals
    /// the cluster.
    fn without_mark(&self, now: &Cluster) -> Cluster {
        let mut next = match now.work {
            Work::Scaling => scale::unplanned(self, now, &scale::decided(now)),
            _ => now.clone(),
        };
        let chosen = machines::chosen(&next);
        next.members.retain(|member| {
            let id = member.machine.as_str();
            self.is_up(id) || !chosen.iter().any(|it| it == id)
        });
        (next.scaled_from, next.leaving) = (Vec::new(), Vec::new());
        next.going_back_to.clear();
        next.failure.get_or_insert_with(|| ClusterFailure {
            what: what(now.work).into(),
            why: "it was given up".into(),
            at_ms: now_ms(),
        });
        next.work = Work::Idle;
        next
    }

    /// Before something else is begun: what an earlier operation could not
    /// undo is written in the record too, and cleaned up by whoever heals the
    /// cluster. Only the way back from a version is nobody else's: while the
    /// cluster does not serve, that may be what brings it up again, and half
    /// way back is no state to go on from.
    pub(super) async fn make_way(&self, cluster: &Cluster, by: &str) -> Result<()> {
        match self.observed(cluster).serves && cluster.going_back_to.is_empty() {
            true => self.give_up_leftovers(cluster.name.as_str(), by).await,
            false => Ok(()),
        }
    }

    /// Gives up what operations at a cluster could not undo.
    pub(super) async fn give_up_leftovers(&self, name: &str, by: &str) -> Result<()> {
        let operations = self.operations()?;
        let stuck = Filter {
            claim: Some(format!("cluster/{name}")),
            leftovers: true,
            ..Filter::default()
        };
        let stuck = operations.list(&stuck).await;
        for one in stuck.map_err(|error| public(&error))? {
            match operations.give_up(one.id, by).await {
                // It has come to its end meanwhile.
                Ok(_) | Err(WorkflowError::NothingLeft { .. } | WorkflowError::NotFound { .. }) => {
                }
                Err(error) => return Err(public(&error)),
            }
        }
        Ok(())
    }

    /// A deletion waits for nobody who cannot end: what was called off for it
    /// and could not be undone then goes with the cluster.
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
                self.give_up_leftovers(name, &one.owner).await?;
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
        Work::Creating => "building it",
        Work::Scaling => "changing its pools",
        Work::Healing => "replacing what died",
        Work::Upgrading { .. } => "its upgrade",
        Work::Restoring => "restoring it",
        Work::Deleting => "deleting it",
    }
}
