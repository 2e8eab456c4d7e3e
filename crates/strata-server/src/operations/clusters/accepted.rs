//! Changes of clusters: accepted into the record, begun as an operation, and
//! taken out of the record with the reason when nothing came of them.

use std::time::Duration;

use strata_types::{ErrorKind, Result};
use strata_workflow::{OperationId, Reason, State, WorkflowError};

use super::wishes::usable;
use super::{
    Clusters, DeleteCluster, DeleteClusterInput, PoolChange, ScaleCluster, ScaleInput,
    UpgradeCluster, UpgradeInput,
};
use crate::core::{AcceptedChange, Cluster, ClusterChange, ClusterFailure, Who, Work, now_ms};
use crate::operations::public;

/// The server that accepted a change begins it; after so long, the leader does.
const BEGUN_BY_OTHERS: Duration = Duration::from_secs(10);

impl Clusters {
    /// A drain that cannot go on is given up for another change of its pool:
    /// what was asked for last holds.
    pub(super) async fn give_up_held(
        &self,
        cluster: &Cluster,
        change: &PoolChange,
        by: &str,
    ) -> Result<()> {
        let Some(held) = &cluster.held else {
            return Ok(());
        };
        let pool = cluster.member(&held.node).map(|it| it.pool.as_str());
        let names: Vec<&str> = match change {
            PoolChange::Add(pools) => pools.iter().map(|it| it.name.as_str()).collect(),
            PoolChange::Delete(names) => names.iter().map(String::as_str).collect(),
            PoolChange::Scale(sizes) => sizes.iter().map(|(name, _)| name.as_str()).collect(),
        };
        let concerns = pool.is_some_and(|pool| names.contains(&pool));
        let (Ok(id), Work::Scaling, true) = (cluster.operation.parse(), cluster.work, concerns)
        else {
            return Ok(());
        };
        match self.operations()?.cancel(id, by).await {
            // It has come to its end meanwhile.
            Ok(_) | Err(WorkflowError::Ended { .. } | WorkflowError::NotFound { .. }) => Ok(()),
            Err(error) => Err(public(&error)),
        }
    }

    /// Accepts a change: from now on, it is in the record.
    pub(super) async fn accept(
        &self,
        who: &Who,
        cluster: &Cluster,
        change: ClusterChange,
    ) -> Result<OperationId> {
        let accepted = self.core.accept_change(cluster, change, &who.name, usable);
        let accepted = accepted.await?;
        let begun = self.begin_accepted(cluster, &accepted).await;
        if begun.is_err() {
            // The caller is refused: nothing is left of it.
            let name = cluster.name.as_str();
            self.core.withdraw_change(name, &accepted.id).await?;
        }
        begun
    }

    /// Begins the operation of an accepted change, or finds it.
    pub(crate) async fn begin_accepted(
        &self,
        cluster: &Cluster,
        accepted: &AcceptedChange,
    ) -> Result<OperationId> {
        let (name, owner) = (cluster.name.to_string(), &accepted.asked_by);
        let key = format!("accepted/{}", accepted.id);
        let (key, operations) = (Some(key.as_str()), self.operations()?);
        let begun = match &accepted.change {
            ClusterChange::Pools(change) => {
                let input = ScaleInput {
                    cluster: name,
                    change: change.clone(),
                    accepted: accepted.id.clone(),
                };
                operations.submit::<ScaleCluster>(&input, owner, key).await
            }
            ClusterChange::Upgrade(to) => {
                let input = UpgradeInput {
                    cluster: name,
                    to: *to,
                    accepted: accepted.id.clone(),
                };
                operations
                    .submit::<UpgradeCluster>(&input, owner, key)
                    .await
            }
            ClusterChange::Delete => {
                let input = DeleteClusterInput {
                    cluster: name,
                    id: cluster.id.clone(),
                };
                operations.submit::<DeleteCluster>(&input, owner, key).await
            }
        };
        let id = begun.map_err(|error| public(&error))?;
        let operation = id.to_string();
        let noted = self
            .core
            .note_operation(&cluster.name, &accepted.id, &operation);
        // It may be over already, and its cluster gone.
        if let Err(error) = noted.await
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(cluster = %cluster.name, %error, "its operation is not noted yet");
        }
        Ok(id)
    }

    /// Sees to what was accepted and is not under way.
    pub(crate) async fn see_to_accepted(&self, cluster: &Cluster) {
        for accepted in &cluster.accepted {
            let done = match accepted.operation.parse::<OperationId>() {
                Err(_) => self.begin_forgotten(cluster, accepted).await,
                Ok(id) => self.take_out_ended(cluster, accepted, id).await,
            };
            if let Err(error) = done {
                tracing::warn!(cluster = %cluster.name, %error, "what was accepted has not begun");
            }
        }
    }

    async fn begin_forgotten(&self, cluster: &Cluster, accepted: &AcceptedChange) -> Result<()> {
        let waits = now_ms().saturating_sub(accepted.at_ms);
        if u128::try_from(waits).unwrap_or(0) < BEGUN_BY_OTHERS.as_millis() {
            return Ok(());
        }
        self.begin_accepted(cluster, accepted).await.map(drop)
    }

    /// An operation that ended before it began to change anything.
    async fn take_out_ended(
        &self,
        cluster: &Cluster,
        accepted: &AcceptedChange,
        id: OperationId,
    ) -> Result<()> {
        let why = match self.operations()?.get(id).await {
            Ok(found) if !found.has_ended() || found.holds_claims() => return Ok(()),
            Ok(found) => match found.state {
                State::Failed { reason, .. } => words(&reason),
                _ => None,
            },
            Err(WorkflowError::NotFound { .. }) => Some("its operation is not known".to_owned()),
            Err(error) => return Err(public(&error)),
        };
        let taken_out = self.core.change_cluster(cluster.name.as_str(), |now| {
            let mut next = now.clone();
            next.accepted.retain(|it| it.id != accepted.id);
            if next.accepted.len() < now.accepted.len()
                && let Some(why) = &why
            {
                next.failure.get_or_insert_with(|| ClusterFailure {
                    what: what(&accepted.change).into(),
                    why: why.clone(),
                    at_ms: now_ms(),
                });
            }
            Ok(next)
        });
        taken_out.await.map(drop)
    }
}

/// Why an operation came to nothing; none where that was wanted.
fn words(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Cancelled { .. } => None,
        Reason::Step { message, .. } => Some(message.clone()),
        _ => Some("it could not be begun".to_owned()),
    }
}

const fn what(change: &ClusterChange) -> &'static str {
    match change {
        ClusterChange::Pools(_) => "changing its pools",
        ClusterChange::Upgrade(_) => "its upgrade",
        ClusterChange::Delete => "deleting it",
    }
}
