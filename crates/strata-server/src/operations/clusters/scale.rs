//! Changes the pools of a cluster: machines are added and joined first, then
//! others are emptied and go. What was added goes back when something fails;
//! what has begun to leave, leaves.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::cluster::{Member, NodePool};
use strata_types::{Error, Result as Outcome};
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Board, Clusters, MEMBER, PATIENT, joining, machines};
pub use crate::core::PoolChange;
use crate::core::{Cluster, Work};
use crate::operations::step_failed;

/// Changes the pools of a cluster.
#[derive(Default)]
pub struct ScaleCluster;

/// Which, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInput {
    /// The cluster.
    pub cluster: String,
    /// What is to be different.
    pub change: PoolChange,
    /// The id of the change in the cluster's record; empty in operations of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted: String,
}

impl PoolChange {
    /// The pools afterwards.
    pub(super) fn apply(&self, cluster: &Cluster) -> Outcome<Vec<NodePool>> {
        let mut pools = cluster.spec.pools.clone();
        let missing = |name: &str| {
            let name: String = name.chars().take(80).collect();
            Error::not_found(format!("cluster {} has no pool {name}", cluster.name)).with_hint(
                format!("see those there are: strata pool list {}", cluster.name),
            )
        };
        match self {
            Self::Add(new) => {
                // That no name is there twice was looked at before.
                let known = &cluster.spec.pools;
                pools.extend(new.iter().filter(|it| !known.contains(it)).cloned());
            }
            Self::Delete(names) => {
                for name in names {
                    match pools.iter().position(|pool| &pool.name == name) {
                        Some(at) => drop(pools.remove(at)),
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
pub(super) struct Decided {
    add: Vec<String>,
    remove: Vec<String>,
    before: Vec<NodePool>,
}

const BOOTING: Duration = Duration::from_secs(40 * 60);
const WIPING: Duration = Duration::from_secs(3 * 24 * 3600);
/// As long as a disruption budget keeps something.
const EMPTYING: Duration = Duration::from_secs(7 * 24 * 3600);
/// A machine that is on its way out is waited for.
const TENACIOUS: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(60),
};
const WHAT: &str = "changing its pools";

type Here = At<ScaleCluster>;

impl Kind for ScaleCluster {
    type Input = ScaleInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-scale";

    fn claims(&self, input: &ScaleInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &ScaleInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new("plan", |at: Here| async move {
                let done = plan(&at).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move { unplan(&at).await })
            .undo_timeout(WIPING)
            // A cluster that does not answer is waited for.
            .retry(TENACIOUS),
        ];
        let Some(decided) = outputs.find::<Decided>("plan")? else {
            return Ok(steps);
        };
        if !decided.add.is_empty() {
            steps.extend(adding());
        }
        for id in decided.remove {
            steps.push(emptying(id.clone()));
            steps.push(leaving(id));
        }
        steps.push(Step::new(
            "settle",
            |at: Here| async move { settle(&at).await },
        ));
        Ok(steps)
    }
}

fn adding() -> Vec<Step<ScaleCluster>> {
    vec![
        Step::new("machines", |at: Here| async move {
            let added = added(&at)?;
            let done = machines::bring_up(&at, &at.input.cluster, &added).await;
            at.context.note(&at.input.cluster, WHAT, done).await
        })
        .undo(|at: Here| async move {
            let added = added(&at)?;
            machines::take_down(&at, &at.input.cluster, &added).await
        })
        .timeout(BOOTING)
        .undo_timeout(WIPING)
        .retry(machines::BOOTED),
        Step::new("install", |at: Here| async move {
            let added = added(&at)?;
            let done = joining::prepare(&Board::new(&at), &at.input.cluster, &added).await;
            at.context.note(&at.input.cluster, WHAT, done).await
        })
        .timeout(MEMBER)
        .retry(PATIENT),
        Step::new("join", |at: Here| async move {
            let added = added(&at)?;
            let done = joining::join(&Board::new(&at), &at.input.cluster, &added).await;
            at.context.note(&at.input.cluster, WHAT, done).await
        })
        .undo(|at: Here| async move {
            let added = added(&at)?;
            joining::unjoin(&at, &at.input.cluster, &added).await
        })
        .timeout(MEMBER)
        .retry(PATIENT),
    ]
}

fn emptying(id: String) -> Step<ScaleCluster> {
    let again = id.clone();
    Step::new(format!("empty {id}"), move |at: Here| {
        let id = id.clone();
        async move {
            if at.context.is_dead(&at.input.cluster, &id) {
                at.progress(format!("{id} is lost: there is nothing to move"));
                return Ok(());
            }
            if joining::is_stranger(&at, &at.input.cluster, &id).await? {
                at.progress(format!("{id} never came in: there is nothing to move"));
                return Ok(());
            }
            joining::empty(&at, &at.input.cluster, &id).await
        }
    })
    .undo(move |at: Here| {
        let id = again.clone();
        async move { joining::reopen_again(&at, &at.input.cluster, &id).await }
    })
    .timeout(EMPTYING)
    .retry(TENACIOUS)
}

fn leaving(id: String) -> Step<ScaleCluster> {
    Step::new(format!("remove {id}"), move |at: Here| {
        let one = [id.clone()];
        async move {
            let cluster = &at.input.cluster;
            let done = async {
                joining::forget(&at, cluster, &one).await?;
                machines::take_down(&at, cluster, &one).await?;
                joining::release(&at, cluster, &one).await
            };
            let done = done.await;
            at.context.note(cluster, WHAT, done).await
        }
    })
    .timeout(WIPING)
    .retry(TENACIOUS)
}

fn added(at: &Here) -> Result<Vec<String>, StepError> {
    Ok(at.output::<Decided>("plan")?.add)
}

/// Chooses machines and victims, and writes both down.
async fn plan(at: &Here) -> Result<Decided, StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
    // Killed after it was written and before it was said: it is this one's.
    if now.operation == operation && now.work == Work::Scaling {
        let decided = decided(&now);
        begun(at).await?;
        return Ok(decided);
    }
    let planned = own.look_and_plan_pools(&now, &at.input.change).await;
    let planned = planned.map_err(step_failed)?;
    let wanted = planned.clone();
    own.core
        .lead_cluster(name, |now| {
            if now.work != Work::Idle {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.scaled_from.clone_from(&now.spec.pools);
            next.spec.pools.clone_from(&wanted.pools);
            next.leaving.clone_from(&wanted.remove);
            next.members.extend(wanted.add.iter().cloned());
            next.work = Work::Scaling;
            operation.clone_into(&mut next.operation);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    begun(at).await?;
    let add = planned.add.iter().map(|member| member.machine.to_string());
    Ok(Decided {
        add: add.collect(),
        remove: planned.remove,
        before: now.spec.pools.clone(),
    })
}

/// It is not only accepted any more, and what kept it from that has passed.
async fn begun(at: &Here) -> Result<(), StepError> {
    let (own, input) = (&at.context, &at.input);
    let withdrawn = own.core.withdraw_change(&input.cluster, &input.accepted);
    withdrawn.await.map_err(step_failed)?;
    if at.attempt() > 1 {
        own.clear_failure(&input.cluster, WHAT).await?;
    }
    Ok(())
}

/// What was written down, before anything was done about it.
pub(super) fn decided(now: &Cluster) -> Decided {
    Decided {
        add: machines::chosen(now),
        remove: now.leaving.clone(),
        before: now.scaled_from.clone(),
    }
}

/// What was chosen is free again, and the pools are as they were: but for the
/// machines that have left already, or are about to.
async fn unplan(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let withdrawn = own.core.withdraw_change(name, &at.input.accepted);
    withdrawn.await.map_err(step_failed)?;
    let operation = at.operation().to_string();
    let told = at.outputs().find::<Decided>("plan")?;
    let undone = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        // It never came to writing it down, or this was done before.
        if now.operation != operation || now.work == Work::Deleting {
            return Ok(next);
        }
        let decided = match (&told, now.work) {
            (Some(told), _) => told.clone(),
            (None, Work::Scaling) => decided(now),
            _ => return Ok(next),
        };
        next = unplanned(own, now, &decided);
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
pub(super) fn unplanned(own: &Clusters, now: &Cluster, decided: &Decided) -> Cluster {
    let mut next = now.clone();
    next.members.retain(|member| {
        let id = member.machine.as_str();
        member.joined || own.is_up(id) || !has(&decided.add, id) && !has(&decided.remove, id)
    });
    let stays = |member: &&Member| member.joined || !has(&decided.remove, member.machine.as_str());
    next.spec.pools.clone_from(&decided.before);
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

async fn settle(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    own.look_now(name).await;
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
    own.sight.look_soon(name);
    Ok(())
}
