//! Accepted changes of clusters: written into the record, submitted as an
//! operation, and dropped from the record with the reason when they failed.

use std::time::Duration;

use strata_types::cluster::KubernetesVersion;
use strata_types::{ErrorKind, Result};
use strata_workflow::{OperationId, Reason, State, WorkflowError};

use super::activity;
use super::commands::require_usable;
use super::{
    Clusters, DeleteCluster, DeleteClusterInput, PoolChange, ScaleCluster, ScaleInput,
    UpgradeCluster, UpgradeInput,
};
use crate::core::{
    AcceptedChange, Cluster, ClusterChange, ClusterFailure, Principal, Work, now_ms,
};
use crate::operations::public;

/// The server that accepted a change begins it; after so long, the leader does.
const SUBMIT_GRACE: Duration = Duration::from_secs(10);

impl Clusters {
    /// A drain that cannot go on is abandoned for another change of its pool:
    /// the last request holds. An upgrade stops where it is.
    pub(super) async fn abandon_held(
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
        match concerns {
            true => self.cancel_held(cluster, by).await.map(drop),
            false => Ok(()),
        }
    }

    /// The same for an upgrade, when the version is asked for that the node has
    /// which is not drained. Returns the operation that is cancelled.
    pub(super) async fn abandon_held_upgrade(
        &self,
        cluster: &Cluster,
        to: KubernetesVersion,
        by: &str,
    ) -> Result<Option<OperationId>> {
        let held = cluster.held.as_ref();
        let member = held.and_then(|held| cluster.member(&held.node));
        match (cluster.work, member) {
            (Work::Upgrading { to: target }, Some(member))
                if target != to && member.version == to =>
            {
                self.cancel_held(cluster, by).await
            }
            _ => Ok(None),
        }
    }

    /// Cancels the operation whose drain is held.
    async fn cancel_held(&self, cluster: &Cluster, by: &str) -> Result<Option<OperationId>> {
        let (Ok(id), Work::Scaling | Work::Upgrading { .. }) =
            (cluster.operation.parse(), cluster.work)
        else {
            return Ok(None);
        };
        match self.operations()?.cancel(id, by).await {
            // It has come to its end meanwhile.
            Ok(_) | Err(WorkflowError::Ended { .. } | WorkflowError::NotFound { .. }) => {
                Ok(Some(id))
            }
            Err(error) => Err(public(&error)),
        }
    }

    /// Accepts a change: from now on, it is in the record.
    pub(super) async fn accept(
        &self,
        principal: &Principal,
        cluster: &Cluster,
        change: ClusterChange,
    ) -> Result<OperationId> {
        let accepted = self
            .core
            .accept_change(cluster, change, &principal.name, require_usable);
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
            tracing::warn!(cluster = %cluster.name, %error, "operation of the accepted change not recorded");
        }
        Ok(id)
    }

    /// Sees to what was accepted and is not under way.
    pub(crate) async fn reconcile_accepted(&self, cluster: &Cluster) {
        for accepted in &cluster.accepted {
            let done = match accepted.operation.parse::<OperationId>() {
                Err(_) => self.begin_unsubmitted(cluster, accepted).await,
                Ok(id) => self.drop_ended(cluster, accepted, id).await,
            };
            if let Err(error) = done {
                tracing::warn!(cluster = %cluster.name, %error, "accepted cluster change not started");
            }
        }
    }

    async fn begin_unsubmitted(&self, cluster: &Cluster, accepted: &AcceptedChange) -> Result<()> {
        let waits = now_ms().saturating_sub(accepted.at_ms);
        if u128::try_from(waits).unwrap_or(0) < SUBMIT_GRACE.as_millis() {
            return Ok(());
        }
        self.begin_accepted(cluster, accepted).await.map(drop)
    }

    /// An operation that ended before it began to change anything.
    async fn drop_ended(
        &self,
        cluster: &Cluster,
        accepted: &AcceptedChange,
        id: OperationId,
    ) -> Result<()> {
        let why = match self.operations()?.get(id).await {
            Ok(found) if !found.has_ended() || found.holds_claims() => return Ok(()),
            Ok(found) => match found.state {
                State::Failed { reason, .. } => failure_message(&reason),
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
fn failure_message(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Cancelled { .. } => None,
        Reason::Step { message, .. } => Some(message.clone()),
        _ => Some("it could not be begun".to_owned()),
    }
}

const fn what(change: &ClusterChange) -> &'static str {
    match change {
        ClusterChange::Pools(_) => activity::SCALE,
        ClusterChange::Upgrade(_) => activity::UPGRADE,
        ClusterChange::Delete => activity::DELETE,
    }
}
