//! Keeps the state of a cluster in a snapshot, and puts it back.

use serde::{Deserialize, Serialize};
use strata_types::Error;
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{
    Clusters, MEMBER_TIMEOUT, RETRY_SHORT, activity, driver_failed, membership, user_name,
};
use crate::core::Work;
use crate::operations::step_failed;

/// Keeps the state of a cluster.
#[derive(Default)]
pub struct SnapshotCluster;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInput {
    pub cluster: String,
    /// The reason, for people.
    pub reason: String,
}

impl Kind for SnapshotCluster {
    type Input = SnapshotInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-snapshot";

    fn claims(&self, input: &SnapshotInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &SnapshotInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("snapshot", |ctx: StepContext<Self>| async move {
                let done = keep(&ctx).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::SNAPSHOT, done)
                    .await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
        ])
    }
}

async fn keep(ctx: &StepContext<SnapshotCluster>) -> Result<(), StepError> {
    let own = &ctx.context;
    let facts = own.facts(&ctx.input.cluster).await.map_err(step_failed)?;
    let stored = own.driver.snapshot(&facts, &ctx.input.reason).await;
    // Repeated after a lost answer, there are two: no harm.
    stored.map_err(driver_failed)?;
    let repaired = own.core.lead_cluster(&ctx.input.cluster, |now| {
        let mut next = now.clone();
        next.failure
            .take_if(|failure| activity::is(&failure.what, activity::SNAPSHOT));
        Ok(next)
    });
    repaired.await.map(drop).map_err(step_failed)
}

/// Puts a cluster back to a snapshot.
#[derive(Default)]
pub struct RestoreCluster;

/// Which, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreClusterInput {
    pub cluster: String,
    pub snapshot: String,
}

impl Kind for RestoreCluster {
    type Input = RestoreClusterInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-restore";

    fn claims(&self, input: &RestoreClusterInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &RestoreClusterInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
                Step::new("restore", |ctx: StepContext<Self>| async move {
                    let done = restore(&ctx).await;
                    ctx.context
                        .note(&ctx.input.cluster, activity::RESTORE, done)
                        .await
                })
                .undo(|ctx: StepContext<Self>| async move {
                    ctx.context.set_idle(&ctx.input.cluster).await
                })
                .timeout(MEMBER_TIMEOUT)
                .retry(Retry {
                    attempts: 3,
                    ..RETRY_SHORT
                }),
                Step::new("admit", |ctx: StepContext<Self>| async move {
                    let done = grant_access(&ctx, &ctx.input.cluster).await;
                    ctx.context
                        .note(&ctx.input.cluster, activity::RESTORE, done)
                        .await
                })
                .timeout(MEMBER_TIMEOUT)
                .retry(RETRY_SHORT),
                Step::new("settle", |ctx: StepContext<Self>| async move {
                    let operation = ctx.operation().to_string();
                    ctx.context.observations.request_refresh();
                    ctx.context
                        .set_work(&ctx.input.cluster, Work::Idle, &operation)
                        .await
                }),
            ])
    }
}

async fn restore(ctx: &StepContext<RestoreCluster>) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let operation = ctx.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    own.core
        .lead_cluster(name, |now| {
            if now.work != Work::Idle && now.operation != operation {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.work = Work::Restoring;
            operation.clone_into(&mut next.operation);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    let tell = |text: String| ctx.progress(text);
    let stored = own.driver.snapshots(&facts.name).map_err(driver_failed)?;
    let stored = stored.into_iter().find(|it| it.id == ctx.input.snapshot);
    let Some(stored) = stored else {
        let why = format!("there is no snapshot {} any more", ctx.input.snapshot);
        return Err(StepError::permanent(why));
    };
    let done = own.driver.restore(&facts, &stored.id, &tell).await;
    let restored = done.map_err(driver_failed)?;
    own.drop_unrestored(name, &restored, stored.version).await
}

/// Access that was granted since then is granted again, and what was revoked
/// stays revoked: for people and machines.
pub(super) async fn grant_access<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    name: &str,
) -> Result<(), StepError> {
    let own = &ctx.context;
    membership::remove_stale_members(ctx, name).await?;
    let now = own.core.cluster(name).map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    for (principal, last) in &now.revoked {
        for generation in 1..=*last {
            let user = user_name(principal, generation);
            let out = own.driver.grant_access(&facts, &user, None).await;
            out.map_err(driver_failed)?;
        }
    }
    for (principal, grant) in &now.access_grants {
        let user = user_name(principal, grant.generation);
        let admitted = own.driver.grant_access(&facts, &user, Some(&grant.role));
        admitted.await.map_err(driver_failed)?;
    }
    Ok(())
}
