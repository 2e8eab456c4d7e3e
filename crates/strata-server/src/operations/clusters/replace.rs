//! Replaces dead members of a cluster as planned by `remediation`: fences their
//! machines, removes them from Kubernetes and etcd, joins the replacements and
//! wipes the machines.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::Error;
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Clusters, MEMBER_TIMEOUT, RETRY_SHORT, StepProgress, activity, machines, membership};
use crate::core::Work;
use crate::operations::step_failed;

#[derive(Default)]
pub struct HealCluster;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealInput {
    pub cluster: String,
    /// The machines that died.
    pub dead: Vec<String>,
}

const BOOT_TIMEOUT: Duration = Duration::from_secs(40 * 60);
const WIPE_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);
const RETRY_LONG: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(60),
};

type Ctx = StepContext<HealCluster>;

impl Kind for HealCluster {
    type Input = HealInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-heal";

    fn claims(&self, input: &HealInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &HealInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("plan", |ctx: Ctx| async move {
                let done = plan(&ctx).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .undo(|ctx: Ctx| async move { undo_plan(&ctx).await }),
            // What runs on it must have ended before the cluster may start it
            // elsewhere.
            Step::new("fence", |ctx: Ctx| async move {
                let dead = planned_change(&ctx)?.dead;
                let done = machines::switch_off(&ctx, &dead).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            // A member of etcd that is dead counts against every other.
            Step::new("forget", |ctx: Ctx| async move {
                let (dead, name) = (planned_change(&ctx)?.dead, &ctx.input.cluster);
                let done = membership::remove_member(&ctx, name, &dead).await;
                let done = match done {
                    Ok(()) => membership::remove_stale_members(&ctx, name).await,
                    failed => failed,
                };
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("machines", |ctx: Ctx| async move {
                let added = planned_change(&ctx)?.add;
                let done = machines::bring_up(&ctx, &ctx.input.cluster, &added).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .undo(|ctx: Ctx| async move {
                let added = unused(&ctx)?;
                machines::take_down(&ctx, &ctx.input.cluster, &added).await
            })
            .timeout(BOOT_TIMEOUT)
            .undo_timeout(WIPE_TIMEOUT)
            .retry(machines::BOOT_RETRY),
            Step::new("install", |ctx: Ctx| async move {
                let added = planned_change(&ctx)?.add;
                let done =
                    membership::prepare(&StepProgress::new(&ctx), &ctx.input.cluster, &added).await;
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("join", |ctx: Ctx| async move {
                let added = planned_change(&ctx)?.add;
                let done =
                    membership::join(&StepProgress::new(&ctx), &ctx.input.cluster, &added).await;
                let done = done.map(|()| added);
                ctx.context
                    .note(&ctx.input.cluster, activity::REPLACE, done)
                    .await
            })
            .undo(|ctx: Ctx| async move {
                // Once all have joined they stay: what is left to do then is
                // only to bury the dead, and the next one does.
                if ctx.outputs().find::<Vec<String>>("join")?.is_some() {
                    return Ok(());
                }
                let added = planned_change(&ctx)?.add;
                membership::unjoin(&ctx, &ctx.input.cluster, &added).await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("bury", |ctx: Ctx| async move { remove(&ctx).await })
                .timeout(WIPE_TIMEOUT)
                .retry(RETRY_LONG),
            Step::new("settle", |ctx: Ctx| async move { settle(&ctx).await }),
        ])
    }
}

/// What was decided when it was its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlannedChange {
    add: Vec<String>,
    dead: Vec<String>,
}

fn planned_change(ctx: &Ctx) -> Result<PlannedChange, StepError> {
    ctx.output("plan")
}

/// Those that were added and have not joined.
fn unused(ctx: &Ctx) -> Result<Vec<String>, StepError> {
    let now = ctx.context.core.cluster(&ctx.input.cluster);
    let joined = |id: &String| {
        let now = now.as_ref().ok();
        now.is_some_and(|now| now.member(id).is_some_and(|it| it.joined))
    };
    let mut added = planned_change(ctx)?.add;
    added.retain(|id| !joined(id));
    Ok(added)
}

/// Chooses the replacements, and records them.
async fn plan(ctx: &Ctx) -> Result<PlannedChange, StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let operation = ctx.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
    if now.operation == operation && now.work == Work::Healing {
        let (add, dead) = (machines::chosen(&now), now.leaving.clone());
        return Ok(PlannedChange { add, dead });
    }
    // It may have waited long: a member that has come back meanwhile is not
    // dead.
    let facts = own.facts(name).await.map_err(step_failed)?;
    let observation = own.driver.observe(&facts).await;
    if !observation.serves {
        let why = format!("the cluster does not answer: {}", observation.why);
        return Err(StepError::transient(why));
    }
    let is_ready = |id: &str| {
        observation
            .nodes
            .iter()
            .any(|node| node.ready && node.name == id)
    };
    // A member that was removed already does not come back by itself.
    let is_dead = |id: &str| now.member(id).is_some_and(|it| !it.joined || !is_ready(id));
    let dead = ctx.input.dead.iter().filter(|id| is_dead(id));
    let dead: Vec<String> = dead.cloned().collect();
    // A member that cannot be replaced stays as it is, until it can be.
    let plan = own.plan_replacement(&now, &dead).map_err(step_failed)?;
    let (chosen, dead) = (plan.replace, plan.remove);
    own.core
        .lead_cluster(name, |now| {
            if now.work != Work::Idle {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.members.extend(chosen.iter().cloned());
            next.leaving.clone_from(&dead);
            next.work = Work::Healing;
            operation.clone_into(&mut next.operation);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    let add = chosen.iter().map(|member| member.machine.to_string());
    let add = add.collect();
    Ok(PlannedChange { add, dead })
}

async fn undo_plan(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let operation = ctx.operation().to_string();
    let told = ctx.outputs().find::<PlannedChange>("plan")?;
    let undone = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        if now.operation != operation || now.work != Work::Healing {
            return Ok(next);
        }
        let told = told.clone().map(|told| told.add);
        let gone = told.unwrap_or_else(|| machines::chosen(now));
        next.members
            .retain(|member| member.joined || !gone.iter().any(|id| id == member.machine.as_str()));
        next.leaving.clear();
        next.work = Work::Idle;
        Ok(next)
    });
    match undone.await {
        Err(error) if machines::is_gone(&error) => Ok(()),
        other => other.map(drop).map_err(step_failed),
    }
}

async fn remove(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name, dead) = (&ctx.context, &ctx.input.cluster, planned_change(ctx)?.dead);
    let done = async {
        machines::take_down(ctx, name, &dead).await?;
        membership::release(ctx, name, &dead).await
    };
    let done = done.await;
    own.note(name, activity::REPLACE, done).await
}

async fn settle(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    own.observe_now(name).await;
    let settled = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.leaving.clear();
        if next.work == Work::Healing {
            next.work = Work::Idle;
        }
        // A failed request of a person stays visible until that person acts.
        next.failure = next
            .failure
            .filter(|failure| !activity::is(&failure.what, activity::REPLACE));
        Ok(next)
    });
    settled.await.map_err(step_failed)?;
    own.observations.request_refresh();
    Ok(())
}
