//! Builds a cluster: its machines are brought up, Kubernetes is put on them,
//! the first becomes the control plane, the others join. What fails on the way
//! is taken down, and every machine goes back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_clusters::ClusterFacts;
use strata_types::cluster::{ClusterRole, Member};
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{
    Clusters, MEMBER_TIMEOUT, RETRY_SHORT, StepProgress, activity, driver_failed, machines,
    membership,
};
use crate::core::Work;
use crate::operations::step_failed;

#[derive(Default)]
pub struct CreateCluster;

/// Which: its record says what it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateClusterInput {
    pub cluster: String,
    /// Its id: another of the same name is not meant.
    pub id: String,
    /// The machines that were taken for it.
    pub machines: Vec<String>,
}

/// Bringing up machines may take a provider long.
const BOOT_TIMEOUT: Duration = Duration::from_secs(40 * 60);
/// Wiping them may take it longer.
const WIPE_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);

type Ctx = StepContext<CreateCluster>;

impl Kind for CreateCluster {
    type Input = CreateClusterInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-create";

    fn claims(&self, input: &CreateClusterInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &CreateClusterInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("machines", |ctx: Ctx| async move {
                let done = machines::bring_up(&ctx, &ctx.input.cluster, &ctx.input.machines).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::CREATE, done)
                    .await
            })
            .undo(|ctx: Ctx| async move { release_machines(&ctx).await })
            .timeout(BOOT_TIMEOUT)
            .undo_timeout(WIPE_TIMEOUT)
            .retry(machines::BOOT_RETRY),
            Step::new("control plane", |ctx: Ctx| async move {
                let done = control_plane(&ctx).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::CREATE, done)
                    .await
            })
            .timeout(2 * MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("join", |ctx: Ctx| async move {
                let done = join(&ctx).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::CREATE, done)
                    .await
            })
            .timeout(2 * MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("ready", |ctx: Ctx| async move { ready(&ctx).await }).retry(RETRY_SHORT),
        ])
    }
}

/// The first machine becomes the control plane. It gets its images meanwhile,
/// then the others all that they need: all wait for the first, and machines may
/// share their cpus and disks.
async fn control_plane(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let first = first(&facts)?;
    let id = first.machine.to_string();
    let others = ctx.input.machines.iter().filter(|it| **it != id);
    let others: Vec<String> = others.cloned().collect();
    let progress = StepProgress::new(ctx);
    let begun = async {
        let tell = |text: String| progress.set(&id, &text);
        let done = own.driver.init(&facts, first, &tell).await;
        done.map_err(driver_failed)
    };
    let work = async {
        let alone = std::slice::from_ref(&id);
        membership::install(&progress, name, alone).await?;
        let beside = async {
            membership::images(&progress, name, alone).await?;
            membership::prepare(&progress, name, &others).await
        };
        futures_util::try_join!(begun, beside).map(drop)
    };
    tokio::select! {
        done = work => done?,
        () = ctx.cancelled() => return Err(StepError::Cancelled),
    }
    own.set_member(name, &id, |member| member.joined = true)
        .await?;
    own.observations.request_refresh();
    Ok(())
}

/// The others join, while the first gets ready.
async fn join(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let first = first(&facts)?;
    let progress = StepProgress::new(ctx);
    let ready = async {
        let tell = |text: String| progress.set(first.machine.as_str(), &text);
        let done = own.driver.ready(&facts, first, &tell).await;
        done.map_err(driver_failed)
    };
    let ready = async {
        tokio::select! {
            done = ready => done,
            () = ctx.cancelled() => Err(StepError::Cancelled),
        }
    };
    let joined = membership::join(&progress, name, &ctx.input.machines);
    futures_util::try_join!(ready, joined).map(drop)
}

/// The machine that the cluster begins on.
fn first(facts: &ClusterFacts) -> Result<&Member, StepError> {
    let mut members = facts.members.iter();
    members
        .find(|member| member.role == ClusterRole::ControlPlane)
        .ok_or_else(|| StepError::permanent("it has no machine to control it"))
}

async fn ready(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    own.observe_now(name).await;
    let operation = ctx.operation().to_string();
    own.set_work(name, Work::Idle, &operation).await
}

/// Every machine is released. The record stays, without machines, with the
/// reason.
async fn release_machines(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    match own.core.cluster(name) {
        Ok(now) if now.id == ctx.input.id => {}
        _ => return Ok(()),
    }
    machines::take_down(ctx, name, &ctx.input.machines).await?;
    let label = own.core.cluster(name).map_err(step_failed)?.name.clone();
    own.driver.clear(&label).map_err(driver_failed)?;
    let emptied = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.members.clear();
        next.work = Work::Idle;
        Ok(next)
    });
    match emptied.await {
        Err(error) if machines::is_gone(&error) => Ok(()),
        other => other.map(drop).map_err(step_failed),
    }
}
