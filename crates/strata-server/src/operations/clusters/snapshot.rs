//! Keeps the state of a cluster in a snapshot, and puts it back.

use serde::{Deserialize, Serialize};
use strata_types::Error;
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Clusters, MEMBER, PATIENT, driver_failed, joining, user_name};
use crate::core::Work;
use crate::operations::step_failed;

const KEEPING: &str = "keeping its state";

/// Keeps the state of a cluster.
#[derive(Default)]
pub struct SnapshotCluster;

/// Which, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInput {
    /// The cluster.
    pub cluster: String,
    /// Why, in words.
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
            Step::new("snapshot", |at: At<Self>| async move {
                let done = keep(&at).await;
                at.context.note(&at.input.cluster, KEEPING, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
        ])
    }
}

async fn keep(at: &At<SnapshotCluster>) -> Result<(), StepError> {
    let own = &at.context;
    let facts = own.facts(&at.input.cluster).await.map_err(step_failed)?;
    let kept = own.driver.snapshot(&facts, &at.input.reason).await;
    // Asked again after a lost answer, there are two: no harm.
    kept.map_err(driver_failed)?;
    let mended = own.core.lead_cluster(&at.input.cluster, |now| {
        let mut next = now.clone();
        next.failure.take_if(|failure| failure.what == KEEPING);
        Ok(next)
    });
    mended.await.map(drop).map_err(step_failed)
}

/// Puts a cluster back to a snapshot.
#[derive(Default)]
pub struct RestoreCluster;

/// Which, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreClusterInput {
    /// The cluster.
    pub cluster: String,
    /// The snapshot.
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
            Step::new("restore", |at: At<Self>| async move {
                let done = restore(&at).await;
                at.context
                    .note(&at.input.cluster, "restoring it", done)
                    .await
            })
            .undo(|at: At<Self>| async move { at.context.rest(&at.input.cluster).await })
            .timeout(MEMBER)
            .retry(Retry {
                attempts: 3,
                ..PATIENT
            }),
            Step::new("admit", |at: At<Self>| async move {
                let done = admit(&at, &at.input.cluster).await;
                at.context
                    .note(&at.input.cluster, "restoring it", done)
                    .await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("settle", |at: At<Self>| async move {
                let operation = at.operation().to_string();
                at.context.sight.look_soon(&at.input.cluster);
                at.context
                    .set_work(&at.input.cluster, Work::Idle, &operation)
                    .await
            }),
        ])
    }
}

async fn restore(at: &At<RestoreCluster>) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
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
    let tell = |text: String| at.progress(text);
    let kept = own.driver.snapshots(&facts.name).map_err(driver_failed)?;
    let kept = kept.into_iter().find(|it| it.id == at.input.snapshot);
    let Some(kept) = kept else {
        let why = format!("there is no snapshot {} any more", at.input.snapshot);
        return Err(StepError::permanent(why));
    };
    let done = own.driver.restore(&facts, &kept.id, &tell).await;
    let restored = done.map_err(driver_failed)?;
    own.part_with(name, &restored, kept.version).await
}

/// Who was let in since then is so again, and who was let out stays out: people
/// and machines.
pub(super) async fn admit<K: Kind<Context = Clusters>>(
    at: &At<K>,
    name: &str,
) -> Result<(), StepError> {
    let own = &at.context;
    joining::forget_ghosts(at, name).await?;
    let now = own.core.cluster(name).map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    for (who, last) in &now.revoked {
        for generation in 1..=*last {
            let user = user_name(who, generation);
            let out = own.driver.admit(&facts, &user, None).await;
            out.map_err(driver_failed)?;
        }
    }
    for (who, admission) in &now.admissions {
        let user = user_name(who, admission.generation);
        let admitted = own.driver.admit(&facts, &user, Some(&admission.role));
        admitted.await.map_err(driver_failed)?;
    }
    Ok(())
}
