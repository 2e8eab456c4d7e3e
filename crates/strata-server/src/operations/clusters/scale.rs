//! Changes the pools of a cluster: machines are added and joined first, then
//! others are emptied and go. What was added goes back when something fails;
//! what has begun to leave, leaves.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::cluster::{Member, NodePool};
use strata_types::{Error, Result as Outcome};
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Clusters, MEMBER_TIMEOUT, RETRY_SHORT, StepProgress, activity, machines, membership};
pub use crate::core::PoolChange;
use crate::core::{Cluster, Work};
use crate::operations::step_failed;

/// Changes the pools of a cluster.
#[derive(Default)]
pub struct ScaleCluster;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInput {
    pub cluster: String,
    /// What is to be different.
    pub change: PoolChange,
    /// The id of the change in the cluster's record; empty in operations of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted: String,
}

impl PoolChange {
    pub(super) fn apply(&self, cluster: &Cluster) -> Outcome<Vec<NodePool>> {
        let mut pools = cluster.spec.pools.clone();
        let missing = |name: &str| {
            let name: String = name.chars().take(80).collect();
            Error::not_found(format!("cluster {} has no pool {name}", cluster.name))
                .with_hint(format!("list them: strata pool list {}", cluster.name))
        };
        match self {
            Self::Add(new) => {
                // That no name is there twice was checked before.
                let known = &cluster.spec.pools;
                pools.extend(new.iter().filter(|it| !known.contains(it)).cloned());
            }
            Self::Delete(names) => {
                for name in names {
                    match pools.iter().position(|pool| &pool.name == name) {
                        Some(index) => drop(pools.remove(index)),
                        None if cluster.had_pool(name) => {}
                        None => return Err(missing(name)),
                    }
                }
            }
            Self::Scale(counts) => {
                for (name, count) in counts {
                    let pool = pools.iter_mut().find(|pool| &pool.name == name);
                    pool.ok_or_else(|| missing(name))?.count = *count;
                }
            }
        }
        Ok(pools)
    }
}

/// What was decided when it was its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedChange {
    add: Vec<String>,
    remove: Vec<String>,
    before: Vec<NodePool>,
}

const BOOT_TIMEOUT: Duration = Duration::from_secs(40 * 60);
const WIPE_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);
/// As long as a disruption budget keeps something.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// A machine that is on its way out is waited for.
const RETRY_LONG: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(60),
};

type Ctx = StepContext<ScaleCluster>;

impl Kind for ScaleCluster {
    type Input = ScaleInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-scale";

    fn claims(&self, input: &ScaleInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &ScaleInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new("plan", |ctx: Ctx| async move {
                let done = plan(&ctx).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::SCALE, done)
                    .await
            })
            .undo(|ctx: Ctx| async move { undo_plan(&ctx).await })
            .undo_timeout(WIPE_TIMEOUT)
            // A cluster that does not answer is waited for.
            .retry(RETRY_LONG),
        ];
        let Some(planned_change) = outputs.find::<PlannedChange>("plan")? else {
            return Ok(steps);
        };
        if !planned_change.add.is_empty() {
            steps.extend(addition_steps());
        }
        for id in planned_change.remove {
            steps.push(drain_step(id.clone()));
            steps.push(removal_step(id));
        }
        steps.push(Step::new(
            "settle",
            |ctx: Ctx| async move { settle(&ctx).await },
        ));
        Ok(steps)
    }
}

fn addition_steps() -> Vec<Step<ScaleCluster>> {
    vec![
        Step::new("machines", |ctx: Ctx| async move {
            let added = added(&ctx)?;
            let done = machines::bring_up(&ctx, &ctx.input.cluster, &added).await;
            ctx.context
                .note(&ctx.input.cluster, activity::SCALE, done)
                .await
        })
        .undo(|ctx: Ctx| async move {
            let added = added(&ctx)?;
            machines::take_down(&ctx, &ctx.input.cluster, &added).await
        })
        .timeout(BOOT_TIMEOUT)
        .undo_timeout(WIPE_TIMEOUT)
        .retry(machines::BOOT_RETRY),
        Step::new("install", |ctx: Ctx| async move {
            let added = added(&ctx)?;
            let done =
                membership::prepare(&StepProgress::new(&ctx), &ctx.input.cluster, &added).await;
            ctx.context
                .note(&ctx.input.cluster, activity::SCALE, done)
                .await
        })
        .timeout(MEMBER_TIMEOUT)
        .retry(RETRY_SHORT),
        Step::new("join", |ctx: Ctx| async move {
            let added = added(&ctx)?;
            let done = membership::join(&StepProgress::new(&ctx), &ctx.input.cluster, &added).await;
            ctx.context
                .note(&ctx.input.cluster, activity::SCALE, done)
                .await
        })
        .undo(|ctx: Ctx| async move {
            let added = added(&ctx)?;
            membership::unjoin(&ctx, &ctx.input.cluster, &added).await
        })
        .timeout(MEMBER_TIMEOUT)
        .retry(RETRY_SHORT),
    ]
}

fn drain_step(id: String) -> Step<ScaleCluster> {
    let again = id.clone();
    Step::new(format!("empty {id}"), move |ctx: Ctx| {
        let id = id.clone();
        async move {
            if ctx.context.is_lost_member(&ctx.input.cluster, &id) {
                ctx.progress(format!("{id} is lost: no pods to evict"));
                return Ok(());
            }
            if membership::is_unregistered(&ctx, &ctx.input.cluster, &id).await? {
                ctx.progress(format!("{id} never joined: no pods to evict"));
                return Ok(());
            }
            membership::drain_member(&ctx, &ctx.input.cluster, &id).await
        }
    })
    .undo(move |ctx: Ctx| {
        let id = again.clone();
        async move { membership::uncordon_on_undo(&ctx, &ctx.input.cluster, &id).await }
    })
    .timeout(DRAIN_TIMEOUT)
    .retry(RETRY_LONG)
}

fn removal_step(id: String) -> Step<ScaleCluster> {
    Step::new(format!("remove {id}"), move |ctx: Ctx| {
        let one = [id.clone()];
        async move {
            let cluster = &ctx.input.cluster;
            let done = async {
                membership::remove_member(&ctx, cluster, &one).await?;
                machines::take_down(&ctx, cluster, &one).await?;
                membership::release(&ctx, cluster, &one).await
            };
            let done = done.await;
            ctx.context.note(cluster, activity::SCALE, done).await
        }
    })
    .timeout(WIPE_TIMEOUT)
    .retry(RETRY_LONG)
}

fn added(ctx: &Ctx) -> Result<Vec<String>, StepError> {
    Ok(ctx.output::<PlannedChange>("plan")?.add)
}

/// Chooses machines and victims, and writes both down.
async fn plan(ctx: &Ctx) -> Result<PlannedChange, StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let operation = ctx.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
    // Killed after the record was written and before the step was recorded: the
    // work is of this operation.
    if now.operation == operation && now.work == Work::Scaling {
        let planned_change = planned_change(&now);
        mark_started(ctx).await?;
        return Ok(planned_change);
    }
    let planned = own.observe_and_plan_pools(&now, &ctx.input.change).await;
    let planned = planned.map_err(step_failed)?;
    let target = planned.clone();
    own.core
        .lead_cluster(name, |now| {
            if now.work != Work::Idle {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.scaled_from.clone_from(&now.spec.pools);
            next.spec.pools.clone_from(&target.pools);
            next.leaving.clone_from(&target.remove);
            next.members.extend(target.add.iter().cloned());
            next.work = Work::Scaling;
            operation.clone_into(&mut next.operation);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    mark_started(ctx).await?;
    let add = planned.add.iter().map(|member| member.machine.to_string());
    Ok(PlannedChange {
        add: add.collect(),
        remove: planned.remove,
        before: now.spec.pools.clone(),
    })
}

/// It is not only accepted any more, and what kept it from that has passed.
async fn mark_started(ctx: &Ctx) -> Result<(), StepError> {
    let (own, input) = (&ctx.context, &ctx.input);
    let withdrawn = own.core.withdraw_change(&input.cluster, &input.accepted);
    withdrawn.await.map_err(step_failed)?;
    if ctx.attempt() > 1 {
        own.clear_failure(&input.cluster, activity::SCALE).await?;
    }
    Ok(())
}

/// What was recorded, before anything was done about it.
pub(super) fn planned_change(now: &Cluster) -> PlannedChange {
    PlannedChange {
        add: machines::chosen(now),
        remove: now.leaving.clone(),
        before: now.scaled_from.clone(),
    }
}

/// What was chosen is free again, and the pools are as they were: but for the
/// machines that have left already, or are about to.
async fn undo_plan(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let withdrawn = own.core.withdraw_change(name, &ctx.input.accepted);
    withdrawn.await.map_err(step_failed)?;
    let operation = ctx.operation().to_string();
    let told = ctx.outputs().find::<PlannedChange>("plan")?;
    let undone = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        // It never came to writing it down, or this was done before.
        if now.operation != operation || now.work == Work::Deleting {
            return Ok(next);
        }
        let planned_change = match (&told, now.work) {
            (Some(told), _) => told.clone(),
            (None, Work::Scaling) => planned_change(now),
            _ => return Ok(next),
        };
        next = without_plan(own, now, &planned_change);
        (next.scaled_from, next.leaving) = (Vec::new(), Vec::new());
        next.work = Work::Idle;
        Ok(next)
    });
    match undone.await {
        Err(error) if machines::is_gone(&error) => Ok(()),
        other => other.map(drop).map_err(step_failed),
    }
}

/// The members and pools without what was decided.
pub(super) fn without_plan(
    own: &Clusters,
    now: &Cluster,
    planned_change: &PlannedChange,
) -> Cluster {
    let mut next = now.clone();
    next.members.retain(|member| {
        let id = member.machine.as_str();
        member.joined
            || own.is_up(id)
            || !has(&planned_change.add, id) && !has(&planned_change.remove, id)
    });
    let stays =
        |member: &&Member| member.joined || !has(&planned_change.remove, member.machine.as_str());
    next.spec.pools.clone_from(&planned_change.before);
    for pool in &mut next.spec.pools {
        let all = next.members.iter().filter(stays);
        let left = all.filter(|member| member.pool == pool.name).count();
        pool.count = pool.count.min(u32::try_from(left).unwrap_or(u32::MAX));
    }
    next
}

fn has(machines: &[String], id: &str) -> bool {
    machines.iter().any(|it| it == id)
}

async fn settle(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    own.observe_now(name).await;
    let settled = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.remember_deleted_pools(&now.scaled_from);
        (next.scaled_from, next.leaving) = (Vec::new(), Vec::new());
        if next.work == Work::Scaling {
            next.work = Work::Idle;
        }
        next.failure = None;
        Ok(next)
    });
    settled.await.map_err(step_failed)?;
    own.observations.request_refresh();
    Ok(())
}
