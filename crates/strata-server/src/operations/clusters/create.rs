//! Builds a cluster: its machines are brought up, Kubernetes is put on them,
//! the first becomes the control plane, the others join. What fails on the way
//! is taken down, and every machine goes back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_clusters::ClusterFacts;
use strata_types::cluster::{ClusterRole, Member};
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{Board, Clusters, MEMBER, PATIENT, driver_failed, joining, machines};
use crate::core::Work;
use crate::operations::step_failed;

/// Builds a cluster.
#[derive(Default)]
pub struct CreateCluster;

/// Which: its record says what it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateClusterInput {
    /// The cluster.
    pub cluster: String,
    /// Its id: another of the same name is not meant.
    pub id: String,
    /// The machines that were taken for it.
    pub machines: Vec<String>,
}

/// Bringing up machines may take a provider long.
const BOOTING: Duration = Duration::from_secs(40 * 60);
/// Wiping them may take it longer.
const WIPING: Duration = Duration::from_secs(3 * 24 * 3600);
const WHAT: &str = "building it";

type Here = At<CreateCluster>;

impl Kind for CreateCluster {
    type Input = CreateClusterInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-create";

    fn claims(&self, input: &CreateClusterInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &CreateClusterInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("machines", |at: Here| async move {
                let done = machines::bring_up(&at, &at.input.cluster, &at.input.machines).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .undo(|at: Here| async move { give_back(&at).await })
            .timeout(BOOTING)
            .undo_timeout(WIPING)
            .retry(machines::BOOTED),
            Step::new("control plane", |at: Here| async move {
                let done = control_plane(&at).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(2 * MEMBER)
            .retry(PATIENT),
            Step::new("join", |at: Here| async move {
                let done = join(&at).await;
                at.context.note(&at.input.cluster, WHAT, done).await
            })
            .timeout(2 * MEMBER)
            .retry(PATIENT),
            Step::new("ready", |at: Here| async move { ready(&at).await }).retry(PATIENT),
        ])
    }
}

/// The first machine becomes the control plane. It gets its images meanwhile,
/// then the others all that they need: all wait for the first, and machines may
/// share their cpus and disks.
async fn control_plane(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let first = first(&facts)?;
    let id = first.machine.to_string();
    let others = at.input.machines.iter().filter(|it| **it != id);
    let others: Vec<String> = others.cloned().collect();
    let board = Board::new(at);
    let begun = async {
        let tell = |text: String| board.tell(&id, &text);
        let done = own.driver.init(&facts, first, &tell).await;
        done.map_err(driver_failed)
    };
    let work = async {
        let alone = std::slice::from_ref(&id);
        joining::install(&board, name, alone).await?;
        let beside = async {
            joining::images(&board, name, alone).await?;
            joining::prepare(&board, name, &others).await
        };
        futures_util::try_join!(begun, beside).map(drop)
    };
    tokio::select! {
        done = work => done?,
        () = at.cancelled() => return Err(StepError::Cancelled),
    }
    own.set_member(name, &id, |member| member.joined = true)
        .await?;
    own.sight.look_soon(name);
    Ok(())
}

/// The others join, while the first gets ready.
async fn join(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    let first = first(&facts)?;
    let board = Board::new(at);
    let ready = async {
        let tell = |text: String| board.tell(first.machine.as_str(), &text);
        let done = own.driver.ready(&facts, first, &tell).await;
        done.map_err(driver_failed)
    };
    let ready = async {
        tokio::select! {
            done = ready => done,
            () = at.cancelled() => Err(StepError::Cancelled),
        }
    };
    let joined = joining::join(&board, name, &at.input.machines);
    futures_util::try_join!(ready, joined).map(drop)
}

/// The machine that the cluster begins on.
fn first(facts: &ClusterFacts) -> Result<&Member, StepError> {
    let mut members = facts.members.iter();
    members
        .find(|member| member.role == ClusterRole::ControlPlane)
        .ok_or_else(|| StepError::permanent("it has no machine to control it"))
}

async fn ready(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    own.look_now(name).await;
    let operation = at.operation().to_string();
    own.set_work(name, Work::Idle, &operation).await
}

/// Every machine goes back. The record stays, without machines, to say why.
async fn give_back(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    match own.core.cluster(name) {
        Ok(now) if now.id == at.input.id => {}
        _ => return Ok(()),
    }
    machines::take_down(at, name, &at.input.machines).await?;
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
