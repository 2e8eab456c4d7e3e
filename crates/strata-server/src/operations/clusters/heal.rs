//! Replaces members of a cluster that died: another machine takes the place of
//! each, as far as there are any, the cluster forgets the dead, and their
//! machines are wiped.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::Error;
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Board, Clusters, MEMBER, PATIENT, joining, machines};
use crate::core::Work;
use crate::operations::step_failed;

/// Replaces members that died.
#[derive(Default)]
pub struct HealCluster;

/// Whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealInput {
    /// The cluster.
    pub cluster: String,
    /// The machines that died.
    pub dead: Vec<String>,
}

const BOOTING: Duration = Duration::from_secs(40 * 60);
const WIPING: Duration = Duration::from_secs(3 * 24 * 3600);
const TENACIOUS: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(60),
};
const WHAT: &str = "replacing what died";

type Here = At<HealCluster>;

impl Kind for HealCluster {
    type Input = HealInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-heal";

    fn claims(&self, input: &HealInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &HealInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("plan", |at: Here| async move {
                let done = plan(&at).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move { unplan(&at).await }),
            // What runs on it must have ended before the cluster may start it
            // elsewhere.
            Step::new("fence", |at: Here| async move {
                let dead = decided(&at)?.dead;
                let done = machines::switch_off(&at, &dead).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            // A member of etcd that is dead counts against every other.
            Step::new("forget", |at: Here| async move {
                let (dead, name) = (decided(&at)?.dead, &at.input.cluster);
                let done = joining::forget(&at, name, &dead).await;
                let done = match done {
                    Ok(()) => joining::forget_ghosts(&at, name).await,
                    failed => failed,
                };
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("machines", |at: Here| async move {
                let added = decided(&at)?.add;
                let done = machines::bring_up(&at, &at.input.cluster, &added).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move {
                let added = unused(&at)?;
                machines::take_down(&at, &at.input.cluster, &added).await
            })
            .timeout(BOOTING)
            .undo_timeout(WIPING)
            .retry(machines::BOOTED),
            Step::new("install", |at: Here| async move {
                let added = decided(&at)?.add;
                let done = joining::prepare(&Board::new(&at), &at.input.cluster, &added).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("join", |at: Here| async move {
                let added = decided(&at)?.add;
                let done = joining::join(&Board::new(&at), &at.input.cluster, &added).await;
                let done = done.map(|()| added);
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move {
                // Once all have joined they stay: what is left to do then is
                // only to bury the dead, and the next one does.
                if at.outputs().find::<Vec<String>>("join")?.is_some() {
                    return Ok(());
                }
                let added = decided(&at)?.add;
                joining::unjoin(&at, &at.input.cluster, &added).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("bury", |at: Here| async move { bury(&at).await })
                .timeout(WIPING)
                .retry(TENACIOUS),
            Step::new("settle", |at: Here| async move { settle(&at).await }),
        ])
    }
}

/// What was decided when it was its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decided {
    add: Vec<String>,
    dead: Vec<String>,
}

fn decided(at: &Here) -> Result<Decided, StepError> {
    at.output("plan")
}

/// Those that were added and have not joined.
fn unused(at: &Here) -> Result<Vec<String>, StepError> {
    let now = at.context.core.cluster(&at.input.cluster);
    let joined = |id: &String| {
        let now = now.as_ref().ok();
        now.is_some_and(|now| now.member(id).is_some_and(|it| it.joined))
    };
    let mut added = decided(at)?.add;
    added.retain(|id| !joined(id));
    Ok(added)
}

/// Chooses who takes their places, and writes it down.
async fn plan(at: &Here) -> Result<Decided, StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    let free = own.take_over(name, &operation).await;
    free.map_err(step_failed)?;
    let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
    if now.operation == operation && now.work == Work::Healing {
        let (add, dead) = (machines::chosen(&now), now.leaving.clone());
        return Ok(Decided { add, dead });
    }
    // It may have waited long: who has come back meanwhile is not dead.
    let facts = own.facts(name).await.map_err(step_failed)?;
    let seen = own.driver.observe(&facts).await;
    if !seen.serves {
        let why = format!("the cluster does not answer: {}", seen.why);
        return Err(StepError::transient(why));
    }
    let is_ready = |id: &str| seen.nodes.iter().any(|node| node.ready && node.name == id);
    // Whoever was forgotten already does not come back by itself.
    let is_dead = |id: &str| now.member(id).is_some_and(|it| !it.joined || !is_ready(id));
    let dead = at.input.dead.iter().filter(|id| is_dead(id));
    let dead: Vec<String> = dead.cloned().collect();
    // Whoever cannot be replaced stays as it is, until it can be.
    let cure = own.plan_cure(&now, &dead).map_err(step_failed)?;
    let (chosen, dead) = (cure.add, cure.bury);
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
    Ok(Decided { add, dead })
}

async fn unplan(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    let told = at.outputs().find::<Decided>("plan")?;
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

async fn bury(at: &Here) -> Result<(), StepError> {
    let (own, name, dead) = (&at.context, &at.input.cluster, decided(at)?.dead);
    let done = async {
        machines::take_down(at, name, &dead).await?;
        joining::release(at, name, &dead).await
    };
    let done = done.await;
    own.note(name, WHAT, done).await
}

async fn settle(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    own.look_now(name).await;
    let settled = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.leaving.clear();
        if next.work == Work::Healing {
            next.work = Work::Idle;
        }
        // What people asked for and did not get stays said until they act.
        next.failure = next.failure.filter(|failure| failure.what != WHAT);
        Ok(next)
    });
    settled.await.map_err(step_failed)?;
    own.sight.look_soon(name);
    Ok(())
}
