//! Brings a cluster to another version: checked first, kept in a snapshot, then
//! one machine after the other, the control plane first and workers drained
//! before. A failed step stops it where it is: the cluster goes on serving, its
//! record says where it stands, and the same request goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_clusters::kubeadm::encryption;
use strata_clusters::skew::order;
use strata_clusters::{ClusterFacts, Snapshot};
use strata_types::Error;
use strata_types::cluster::{ClusterRole, KubernetesVersion};
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{
    Clusters, MEMBER_TIMEOUT, RETRY_SHORT, StepProgress, driver_failed, machines, membership,
    snapshot,
};
use crate::core::{NodeCondition, Work, now_ms};
use crate::operations::step_failed;

/// Brings a cluster to another version.
#[derive(Default)]
pub struct UpgradeCluster;

/// Which, and where to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeInput {
    pub cluster: String,
    pub to: KubernetesVersion,
    /// The id of the change in the cluster's record; empty in operations of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberUpgrade {
    machine: String,
    first: bool,
    drain: bool,
}

/// As long as a disruption budget keeps something.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a control plane on a machine that answers is waited for before the
/// state before comes back.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2 * 60);
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Between two checks whether the obstacle has passed.
const FAST_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What was changed just before needs a moment to be well again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

type Ctx = StepContext<UpgradeCluster>;

impl Kind for UpgradeCluster {
    type Input = UpgradeInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-upgrade";

    fn claims(&self, input: &UpgradeInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &UpgradeInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new("preflight", |ctx: Ctx| async move {
                let done = preflight(&ctx).await;
                noted(&ctx, done).await
            })
            .undo(|ctx: Ctx| async move { stop(&ctx).await })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
            Step::new("snapshot", |ctx: Ctx| async move {
                let done = snapshot(&ctx).await;
                noted(&ctx, done).await
            })
            .timeout(MEMBER_TIMEOUT)
            .retry(RETRY_SHORT),
        ];
        let Some(turns) = outputs.find::<Vec<MemberUpgrade>>("preflight")? else {
            return Ok(steps);
        };
        for turn in turns {
            if turn.drain {
                steps.push(drain_step(&turn.machine));
            }
            steps.push(upgrading(turn));
        }
        steps.push(
            Step::new("encrypt", |ctx: Ctx| async move { encrypt(&ctx).await })
                .timeout(MEMBER_TIMEOUT)
                .retry(RETRY_SHORT),
        );
        steps.push(Step::new(
            "settle",
            |ctx: Ctx| async move { settle(&ctx).await },
        ));
        Ok(steps)
    }
}

async fn noted<T>(ctx: &Ctx, done: Result<T, StepError>) -> Result<T, StepError> {
    let what = format!("the upgrade to {}", ctx.input.to);
    ctx.context.note(&ctx.input.cluster, &what, done).await
}

async fn preflight(ctx: &Ctx) -> Result<Vec<MemberUpgrade>, StepError> {
    let (own, name, to) = (&ctx.context, &ctx.input.cluster, ctx.input.to);
    let operation = ctx.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.cluster(name).map_err(step_failed)?;
    own.may_upgrade(&now, to).map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    ctx.progress("checking whether the upgrade can begin");
    let until = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    loop {
        let found = own.driver.preflight(&facts, to).await;
        let blockers = found.map_err(driver_failed)?.blockers;
        let Some(first) = blockers.first() else {
            break;
        };
        if tokio::time::Instant::now() >= until {
            let all = blockers.iter();
            let all = all.map(|it| format!("{}: {}", it.what, it.hint));
            let all = all.collect::<Vec<_>>().join("; ");
            return Err(StepError::permanent(format!("nothing was begun: {all}")));
        }
        ctx.progress(format!("waiting for this to pass: {}", first.what));
        tokio::select! {
            () = ctx.cancelled() => return Err(StepError::Cancelled),
            () = tokio::time::sleep(FAST_POLL_INTERVAL) => {}
        }
    }
    own.core
        .lead_cluster(name, |now| {
            let own_work = now.operation == operation;
            if now.work != Work::Idle && !own_work {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.work = Work::Upgrading { to };
            operation.clone_into(&mut next.operation);
            next.accepted.retain(|it| it.id != ctx.input.accepted);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    // One from before clusters were encrypted gets its key with the upgrade.
    // Only where all of the control plane has its turn: one that has not would
    // not know it.
    if now.spec.version != to {
        let begun = own
            .core
            .change_cluster_secrets(&now.name, encryption::begin);
        begun.await.map_err(step_failed)?;
    }
    let workers = now.members.iter();
    let workers = workers
        .filter(|member| member.role == ClusterRole::Worker)
        .count();
    let mut first = now.spec.version != to;
    let mut turns = Vec::new();
    for member in order(&now.members) {
        let is_control = member.role == ClusterRole::ControlPlane;
        if member.version == to && !(is_control && first) {
            continue;
        }
        turns.push(MemberUpgrade {
            machine: member.machine.to_string(),
            first: is_control && std::mem::take(&mut first),
            // A single worker has nowhere to move its pods to.
            drain: !is_control && workers > 1,
        });
    }
    Ok(turns)
}

/// Nothing is under way any more. What failed stays recorded, unless it failed
/// when all was done.
async fn stop(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name, to) = (&ctx.context, &ctx.input.cluster, ctx.input.to);
    let withdrawn = own.core.withdraw_change(name, &ctx.input.accepted);
    withdrawn.await.map_err(step_failed)?;
    own.set_idle(name).await?;
    let stopped = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        if now.spec.version == to && now.members.iter().all(|it| it.version == to) {
            next.failure = None;
        }
        Ok(next)
    });
    match stopped.await {
        Err(error) if machines::is_gone(&error) => Ok(()),
        other => other.map(drop).map_err(step_failed),
    }
}

async fn snapshot(ctx: &Ctx) -> Result<Snapshot, StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    ctx.progress("taking a snapshot of etcd");
    // By the operation, so that done again it is the same one.
    let reason = format!(
        "before the upgrade to {} by {}",
        ctx.input.to,
        ctx.operation()
    );
    let all = own.driver.snapshots(&facts.name).map_err(driver_failed)?;
    if let Some(stored) = all.into_iter().find(|stored| stored.reason == reason) {
        return Ok(stored);
    }
    let stored = own.driver.snapshot(&facts, &reason).await;
    stored.map_err(driver_failed)
}

fn drain_step(machine: &str) -> Step<UpgradeCluster> {
    let (id, again) = (machine.to_owned(), machine.to_owned());
    Step::new(format!("empty {machine}"), move |ctx: Ctx| {
        let id = id.clone();
        async move {
            let done = membership::drain_member(&ctx, &ctx.input.cluster, &id).await;
            noted(&ctx, done).await
        }
    })
    .undo(move |ctx: Ctx| {
        let id = again.clone();
        async move { membership::uncordon_on_undo(&ctx, &ctx.input.cluster, &id).await }
    })
    .timeout(DRAIN_TIMEOUT)
    .retry(RETRY_SHORT)
}

fn upgrading(turn: MemberUpgrade) -> Step<UpgradeCluster> {
    let again = turn.clone();
    Step::new(format!("upgrade {}", turn.machine), move |ctx: Ctx| {
        let turn = turn.clone();
        async move {
            let done = upgrade_one(&ctx, &turn).await;
            let done = done.map_err(|error| with_first(&ctx, error));
            noted(&ctx, done).await
        }
    })
    .undo(move |ctx: Ctx| {
        let turn = again.clone();
        async move { roll_back(&ctx, &turn).await }
    })
    .timeout(MEMBER_TIMEOUT)
    .undo_timeout(MEMBER_TIMEOUT)
    .retry(strata_workflow::Retry {
        attempts: 2,
        ..RETRY_SHORT
    })
}

/// What went wrong first is why it failed: the next attempt may only find that
/// the API is away since then.
fn with_first(ctx: &Ctx, error: StepError) -> StepError {
    let StepError::Transient { message } = &error else {
        return error;
    };
    let now = ctx.context.core.cluster(&ctx.input.cluster).ok();
    match now.and_then(|now| now.failure.clone()) {
        Some(first) if ctx.attempt() > 1 && first.why != *message => {
            let first: String = first.why.chars().take(1000).collect();
            StepError::transient(format!("{first}; and then: {message}"))
        }
        _ => error,
    }
}

async fn upgrade_one(ctx: &Ctx, turn: &MemberUpgrade) -> Result<(), StepError> {
    let (own, name, to) = (&ctx.context, &ctx.input.cluster, ctx.input.to);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let Some(member) = facts.member(&turn.machine).cloned() else {
        return Ok(());
    };
    ctx.safe_point()?;
    let progress = StepProgress::new(ctx);
    let tell = |text: String| progress.set(&turn.machine, &text);
    let done = own
        .driver
        .upgrade(&facts, &member, to, turn.first, &tell)
        .await;
    done.map_err(driver_failed)?;
    is_done(ctx, turn).await?;
    if turn.drain {
        membership::uncordon(ctx, name, &turn.machine).await?;
    }
    own.observations.request_refresh();
    Ok(())
}

/// Records that a machine has its version.
async fn is_done(ctx: &Ctx, turn: &MemberUpgrade) -> Result<(), StepError> {
    let (own, name, to) = (&ctx.context, &ctx.input.cluster, ctx.input.to);
    let written = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        if turn.first {
            next.spec.version = to;
        }
        for member in &mut next.members {
            if member.machine.as_str() == turn.machine {
                member.version = to;
            }
        }
        Ok(next)
    });
    written.await.map(drop).map_err(step_failed)
}

/// A machine that is done stays done, also a worker whose end was not recorded:
/// its kubelet goes last, and reports. The next request goes on with a control
/// plane machine. Only when the first of the control plane did not come up
/// again, and no API server answers, the state before is restored.
async fn roll_back(ctx: &Ctx, turn: &MemberUpgrade) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let Ok(facts) = own.facts(name).await else {
        return Ok(());
    };
    let works = match facts.member(&turn.machine) {
        Some(member) if member.version != ctx.input.to => member.role == ClusterRole::Worker,
        _ => return Ok(()),
    };
    let now = own.core.cluster(name).map_err(step_failed)?;
    let stored: Snapshot = ctx.output("snapshot")?;
    let begun = turn.first && now.rollback_snapshot == stored.id;
    if !begun && !is_unreachable(ctx, turn, &facts, works).await? {
        return Ok(());
    }
    ctx.progress("the new control plane does not come up: rolling back to the snapshot");
    // The operation that goes on with this must not take what was restored for
    // what was.
    let written = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        stored.id.clone_into(&mut next.rollback_snapshot);
        Ok(next)
    });
    written.await.map_err(step_failed)?;
    let tell = |text: String| ctx.progress(text);
    let restored = own.driver.restore(&facts, &stored.id, &tell).await;
    let restored = restored.map_err(driver_failed)?;
    own.drop_unrestored(name, &restored, stored.version).await?;
    // From here on it serves, and is not restored again.
    let told = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.rollback_snapshot.clear();
        if let Some(failure) = &mut next.failure {
            failure.why = format!(
                "the new control plane did not come up, and that of {} came back from the \
                 snapshot {}: {}",
                stored.version, stored.id, failure.why
            );
        }
        Ok(next)
    });
    told.await.map_err(step_failed)?;
    snapshot::grant_access(ctx, name).await
}

/// Whether nothing serves any more after the first of a control plane had its
/// turn. A moment's silence is not it: what was written since would be lost. Nor
/// is a machine that is away, with all that it has.
async fn is_unreachable(
    ctx: &Ctx,
    turn: &MemberUpgrade,
    facts: &ClusterFacts,
    works: bool,
) -> Result<bool, StepError> {
    let own = &ctx.context;
    let begun = tokio::time::Instant::now();
    let mut until = begun + SILENCE_TIMEOUT;
    loop {
        let observation = own.driver.observe(facts).await;
        let told = observation
            .nodes
            .iter()
            .find(|node| node.name == turn.machine);
        if works && told.is_some_and(|node| node.version == ctx.input.to.to_string()) {
            is_done(ctx, turn).await?;
            return Ok(false);
        }
        if !turn.first {
            return Ok(false);
        }
        if observation.serves {
            // It may have been restored by a run that was killed before this
            // was done.
            snapshot::grant_access(ctx, &ctx.input.cluster).await?;
            return Ok(false);
        }
        let node = own.core.node(&turn.machine);
        if !node.is_ok_and(|node| node.condition == NodeCondition::Ready) {
            until = tokio::time::Instant::now() + SILENCE_TIMEOUT;
            if begun.elapsed() >= 2 * SILENCE_TIMEOUT {
                // A deletion or a restore of the cluster need not wait.
                let machine = &turn.machine;
                let why = format!("machine {machine} is away, and so is the control plane");
                return Err(StepError::transient(why));
            }
        }
        if tokio::time::Instant::now() >= until {
            return Ok(true);
        }
        ctx.progress("waiting for the control plane");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Every API server knows the key by now: it may be written with.
async fn encrypt(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let cluster = own.core.cluster(name).map_err(step_failed)?;
    let promoted = own
        .core
        .change_cluster_secrets(&cluster.name, encryption::promote);
    promoted.await.map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    let configured = own.driver.configure(&facts).await;
    configured.map_err(driver_failed)
}

async fn settle(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let operation = ctx.operation().to_string();
    own.observe_now(name).await;
    tracing::info!(cluster = name, version = %ctx.input.to, at_ms = now_ms(), "cluster upgraded");
    own.set_work(name, Work::Idle, &operation).await
}
