//! Replaces members of a cluster that died: another machine takes the place of
//! each, the cluster forgets the dead, and their machines are wiped.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::Error;
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Clusters, MEMBER, PATIENT, machines};
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
            // First: a member of etcd that is dead counts against every other.
            Step::new("forget", |at: Here| async move {
                let done = machines::forget(&at, &at.input.cluster, &at.input.dead).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("machines", |at: Here| async move {
                let added: Vec<String> = at.output("plan")?;
                let done = machines::bring_up(&at, &at.input.cluster, &added).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move {
                let added: Vec<String> = at.output("plan")?;
                machines::take_down(&at, &at.input.cluster, &added).await
            })
            .timeout(BOOTING)
            .undo_timeout(WIPING)
            .retry(Retry::NEVER),
            Step::new("install", |at: Here| async move {
                let added: Vec<String> = at.output("plan")?;
                let done = machines::install(&at, &at.input.cluster, &added).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(MEMBER)
            .retry(PATIENT),
            Step::new("join", |at: Here| async move {
                let added: Vec<String> = at.output("plan")?;
                let done = machines::join(&at, &at.input.cluster, &added).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move {
                let added: Vec<String> = at.output("plan")?;
                machines::forget(&at, &at.input.cluster, &added).await
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

/// Chooses who takes their places, and writes it down.
async fn plan(at: &Here) -> Result<Vec<String>, StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    let now = own.core.cluster(name).map_err(step_failed)?;
    if now.operation == operation && now.work == Work::Healing {
        let fresh = now.members.iter().filter(|member| !member.joined);
        let fresh = fresh.map(|member| member.machine.to_string());
        return Ok(fresh.filter(|id| !at.input.dead.contains(id)).collect());
    }
    let chosen = own
        .plan_replacements(&now, &at.input.dead)
        .map_err(step_failed)?;
    own.core
        .lead_cluster(name, |now| {
            if now.work != Work::Idle {
                return Err(Error::wrong_state(format!("{name} is busy otherwise")));
            }
            let mut next = now.clone();
            next.members.extend(chosen.iter().cloned());
            next.work = Work::Healing;
            operation.clone_into(&mut next.operation);
            Ok(next)
        })
        .await
        .map_err(step_failed)?;
    Ok(chosen
        .iter()
        .map(|member| member.machine.to_string())
        .collect())
}

async fn unplan(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    let added = at.outputs().find::<Vec<String>>("plan")?;
    let undone = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        if now.operation != operation || now.work != Work::Healing {
            return Ok(next);
        }
        let goes = |id: &str| match &added {
            Some(added) => added.iter().any(|it| it == id),
            None => !at.input.dead.iter().any(|it| it == id),
        };
        next.members
            .retain(|member| member.joined || !goes(member.machine.as_str()));
        next.work = Work::Idle;
        Ok(next)
    });
    match undone.await {
        Err(error) if machines::is_gone(&error) => Ok(()),
        other => other.map(drop).map_err(step_failed),
    }
}

async fn bury(at: &Here) -> Result<(), StepError> {
    let (own, name, dead) = (&at.context, &at.input.cluster, &at.input.dead);
    let done = async {
        machines::take_down(at, name, dead).await?;
        machines::release(at, name, dead).await
    };
    let done = done.await;
    own.note(name, WHAT, done).await
}

async fn settle(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let operation = at.operation().to_string();
    own.sight.look_soon(name);
    own.set_work(name, Work::Idle, &operation).await
}
