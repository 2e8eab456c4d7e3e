//! Brings a cluster to another version: looked at first, kept in a snapshot,
//! then one machine after the other, the control plane first and workers
//! emptied before. A failed step stops it where it is: the cluster goes on
//! serving, its record says where it stands, and the same wish goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_clusters::kubeadm::encryption;
use strata_clusters::skew::order;
use strata_clusters::{ClusterFacts, Snapshot};
use strata_types::Error;
use strata_types::cluster::{ClusterRole, KubernetesVersion};
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{Board, Clusters, MEMBER, PATIENT, driver_failed, joining, machines, snapshot};
use crate::core::{NodeCondition, Work, now_ms};
use crate::operations::step_failed;

/// Brings a cluster to another version.
#[derive(Default)]
pub struct UpgradeCluster;

/// Which, and where to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeInput {
    /// The cluster.
    pub cluster: String,
    /// The version.
    pub to: KubernetesVersion,
    /// The id of the change in the cluster's record; empty in operations of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted: String,
}

/// A machine's turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    machine: String,
    first: bool,
    drain: bool,
}

/// As long as a disruption budget keeps something.
const EMPTYING: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a control plane on a machine that answers is waited for before the
/// state before comes back.
const SILENCE: Duration = Duration::from_secs(2 * 60);
const LOOK: Duration = Duration::from_secs(5);
/// Between two looks whether what was in the way has passed.
const SOON: Duration = Duration::from_secs(1);

/// What was changed just before needs a moment to be well again.
const SETTLING: Duration = Duration::from_secs(30);

type Here = At<UpgradeCluster>;

impl Kind for UpgradeCluster {
    type Input = UpgradeInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-upgrade";

    fn claims(&self, input: &UpgradeInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &UpgradeInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new("preflight", |at: Here| async move {
                let done = preflight(&at).await;
                noted(&at, done).await
            })
            .undo(|at: Here| async move { stop(&at).await })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("snapshot", |at: Here| async move {
                let done = snapshot(&at).await;
                noted(&at, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
        ];
        let Some(turns) = outputs.find::<Vec<Turn>>("preflight")? else {
            return Ok(steps);
        };
        for turn in turns {
            if turn.drain {
                steps.push(emptying(&turn.machine));
            }
            steps.push(upgrading(turn));
        }
        steps.push(
            Step::new("encrypt", |at: Here| async move { encrypt(&at).await })
                .timeout(MEMBER)
                .retry(PATIENT),
        );
        steps.push(Step::new(
            "settle",
            |at: Here| async move { settle(&at).await },
        ));
        Ok(steps)
    }
}

async fn noted<T>(at: &Here, done: Result<T, StepError>) -> Result<T, StepError> {
    let what = format!("the upgrade to {}", at.input.to);
    at.context.note(&at.input.cluster, &what, done).await
}

async fn preflight(at: &Here) -> Result<Vec<Turn>, StepError> {
    let (own, name, to) = (&at.context, &at.input.cluster, at.input.to);
    let operation = at.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.cluster(name).map_err(step_failed)?;
    own.may_upgrade(&now, to).map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    at.progress("looking whether anything is in the way");
    let until = tokio::time::Instant::now() + SETTLING;
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
        at.progress(format!("waiting whether that passes: {}", first.what));
        tokio::select! {
            () = at.cancelled() => return Err(StepError::Cancelled),
            () = tokio::time::sleep(SOON) => {}
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
            next.accepted.retain(|it| it.id != at.input.accepted);
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
        turns.push(Turn {
            machine: member.machine.to_string(),
            first: is_control && std::mem::take(&mut first),
            // A single worker has nowhere to move its pods to.
            drain: !is_control && workers > 1,
        });
    }
    Ok(turns)
}

/// Nothing is under way any more. What failed stays written down, unless it
/// failed when all was done.
async fn stop(at: &Here) -> Result<(), StepError> {
    let (own, name, to) = (&at.context, &at.input.cluster, at.input.to);
    let withdrawn = own.core.withdraw_change(name, &at.input.accepted);
    withdrawn.await.map_err(step_failed)?;
    own.rest(name).await?;
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

async fn snapshot(at: &Here) -> Result<Snapshot, StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    at.progress("keeping its state in a snapshot");
    // By the operation, so that done again it is the same one.
    let reason = format!(
        "before the upgrade to {} by {}",
        at.input.to,
        at.operation()
    );
    let all = own.driver.snapshots(&facts.name).map_err(driver_failed)?;
    if let Some(kept) = all.into_iter().find(|kept| kept.reason == reason) {
        return Ok(kept);
    }
    let kept = own.driver.snapshot(&facts, &reason).await;
    kept.map_err(driver_failed)
}

fn emptying(machine: &str) -> Step<UpgradeCluster> {
    let (id, again) = (machine.to_owned(), machine.to_owned());
    Step::new(format!("empty {machine}"), move |at: Here| {
        let id = id.clone();
        async move {
            let done = joining::empty(&at, &at.input.cluster, &id).await;
            noted(&at, done).await
        }
    })
    .undo(move |at: Here| {
        let id = again.clone();
        async move { joining::reopen_again(&at, &at.input.cluster, &id).await }
    })
    .timeout(EMPTYING)
    .retry(PATIENT)
}

fn upgrading(turn: Turn) -> Step<UpgradeCluster> {
    let again = turn.clone();
    Step::new(format!("upgrade {}", turn.machine), move |at: Here| {
        let turn = turn.clone();
        async move {
            let done = upgrade_one(&at, &turn).await;
            let done = done.map_err(|error| with_first(&at, error));
            noted(&at, done).await
        }
    })
    .undo(move |at: Here| {
        let turn = again.clone();
        async move { roll_back(&at, &turn).await }
    })
    .timeout(MEMBER)
    .undo_timeout(MEMBER)
    .retry(strata_workflow::Retry {
        attempts: 2,
        ..PATIENT
    })
}

/// What went wrong first is why it failed: the next attempt may only find that
/// the API is away since then.
fn with_first(at: &Here, error: StepError) -> StepError {
    let StepError::Transient { message } = &error else {
        return error;
    };
    let now = at.context.core.cluster(&at.input.cluster).ok();
    match now.and_then(|now| now.failure.clone()) {
        Some(first) if at.attempt() > 1 && first.why != *message => {
            let first: String = first.why.chars().take(1000).collect();
            StepError::transient(format!("{first}; and then: {message}"))
        }
        _ => error,
    }
}

async fn upgrade_one(at: &Here, turn: &Turn) -> Result<(), StepError> {
    let (own, name, to) = (&at.context, &at.input.cluster, at.input.to);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let Some(member) = facts.member(&turn.machine).cloned() else {
        return Ok(());
    };
    at.safe_point()?;
    let board = Board::new(at);
    let tell = |text: String| board.tell(&turn.machine, &text);
    let done = own
        .driver
        .upgrade(&facts, &member, to, turn.first, &tell)
        .await;
    done.map_err(driver_failed)?;
    is_done(at, turn).await?;
    if turn.drain {
        joining::reopen(at, name, &turn.machine).await?;
    }
    own.sight.look_soon(name);
    Ok(())
}

/// Writes down that a machine has its version.
async fn is_done(at: &Here, turn: &Turn) -> Result<(), StepError> {
    let (own, name, to) = (&at.context, &at.input.cluster, at.input.to);
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

/// A machine that is done stays done, also a worker that nobody heard of: its
/// kubelet goes last, and tells. One of the control plane is gone on with by
/// the next wish. Only when the first of it did not come up again, and nobody
/// serves, the state before comes back.
async fn roll_back(at: &Here, turn: &Turn) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let Ok(facts) = own.facts(name).await else {
        return Ok(());
    };
    let works = match facts.member(&turn.machine) {
        Some(member) if member.version != at.input.to => member.role == ClusterRole::Worker,
        _ => return Ok(()),
    };
    let now = own.core.cluster(name).map_err(step_failed)?;
    let kept: Snapshot = at.output("snapshot")?;
    let begun = turn.first && now.going_back_to == kept.id;
    if !begun && !is_lost(at, turn, &facts, works).await? {
        return Ok(());
    }
    at.progress("the new control plane does not come up: going back to the snapshot");
    // Whoever goes on with this must not take what was restored for what was.
    let written = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        kept.id.clone_into(&mut next.going_back_to);
        Ok(next)
    });
    written.await.map_err(step_failed)?;
    let tell = |text: String| at.progress(text);
    let restored = own.driver.restore(&facts, &kept.id, &tell).await;
    let restored = restored.map_err(driver_failed)?;
    own.part_with(name, &restored, kept.version).await?;
    // From here on it serves, and is not restored again.
    let told = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.going_back_to.clear();
        if let Some(failure) = &mut next.failure {
            failure.why = format!(
                "the new control plane did not come up, and that of {} came back from the \
                 snapshot {}: {}",
                kept.version, kept.id, failure.why
            );
        }
        Ok(next)
    });
    told.await.map_err(step_failed)?;
    snapshot::admit(at, name).await
}

/// Whether nothing serves any more after the first of a control plane had its
/// turn. A moment's silence is not it: what was written since would be lost. Nor
/// is a machine that is away, with all that it has.
async fn is_lost(
    at: &Here,
    turn: &Turn,
    facts: &ClusterFacts,
    works: bool,
) -> Result<bool, StepError> {
    let own = &at.context;
    let begun = tokio::time::Instant::now();
    let mut until = begun + SILENCE;
    loop {
        let seen = own.driver.observe(facts).await;
        let told = seen.nodes.iter().find(|node| node.name == turn.machine);
        if works && told.is_some_and(|node| node.version == at.input.to.to_string()) {
            is_done(at, turn).await?;
            return Ok(false);
        }
        if !turn.first {
            return Ok(false);
        }
        if seen.serves {
            // It may have been put back by who was ended before this was done.
            snapshot::admit(at, &at.input.cluster).await?;
            return Ok(false);
        }
        let node = own.core.node(&turn.machine);
        if !node.is_ok_and(|node| node.condition == NodeCondition::Ready) {
            until = tokio::time::Instant::now() + SILENCE;
            if begun.elapsed() >= 2 * SILENCE {
                // Who wants to delete or restore the cluster need not wait.
                let machine = &turn.machine;
                let why = format!("machine {machine} is away, and so is the control plane");
                return Err(StepError::transient(why));
            }
        }
        if tokio::time::Instant::now() >= until {
            return Ok(true);
        }
        at.progress("looking whether the control plane comes up");
        tokio::time::sleep(LOOK).await;
    }
}

/// Every API server knows the key by now: it may be written with.
async fn encrypt(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let cluster = own.core.cluster(name).map_err(step_failed)?;
    let promoted = own
        .core
        .change_cluster_secrets(&cluster.name, encryption::promote);
    promoted.await.map_err(step_failed)?;
    let facts = own.facts(name).await.map_err(step_failed)?;
    let configured = own.driver.configure(&facts).await;
    configured.map_err(driver_failed)
}

async fn settle(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    own.look_now(name).await;
    tracing::info!(cluster = name, version = %at.input.to, at = now_ms(), "upgraded");
    own.set_work(name, Work::Idle, &operation).await
}
