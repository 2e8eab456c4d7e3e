//! Deletes a cluster: its machines are switched off, wiped and given back, and
//! it is forgotten. There is no way back, and none is tried.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Clusters, machines};
use crate::core::Work;
use crate::operations::step_failed;

/// Deletes a cluster.
#[derive(Default)]
pub struct DeleteCluster;

/// Which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteClusterInput {
    /// The cluster.
    pub cluster: String,
    /// Its id: another of the same name is not meant.
    pub id: String,
}

const WIPING: Duration = Duration::from_secs(3 * 24 * 3600);
/// What cannot be wiped is tried again for days, and told all the while.
const TENACIOUS: Retry = Retry {
    attempts: 2000,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(120),
};

type Here = At<DeleteCluster>;

impl Kind for DeleteCluster {
    type Input = DeleteClusterInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-delete";

    fn claims(&self, input: &DeleteClusterInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &DeleteClusterInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("machines", |at: Here| async move { take_down(&at).await })
                .timeout(WIPING)
                .retry(TENACIOUS),
            Step::new("forget", |at: Here| async move { forget(&at).await }).retry(TENACIOUS),
        ])
    }
}

/// Whether it is still the cluster that was meant.
fn is_there(at: &Here) -> bool {
    let found = at.context.core.cluster(&at.input.cluster);
    found.is_ok_and(|now| now.id == at.input.id)
}

async fn take_down(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    if !is_there(at) {
        return Ok(());
    }
    let operation = at.operation().to_string();
    own.set_work(name, Work::Deleting, &operation).await?;
    own.sight.look_soon(name);
    loop {
        let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
        let members = now.members.iter().map(|member| member.machine.to_string());
        let all: Vec<_> = members.collect();
        if all.is_empty() {
            return Ok(());
        }
        let gone = machines::take_down(at, name, &all).await;
        // Whoever is down is free at once; the others are listed and tried again.
        let left = own.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.members
                .retain(|member| !own.is_down(member.machine.as_str()));
            Ok(next)
        });
        left.await.map_err(step_failed)?;
        let told = gone.map_err(|error| StepError::transient(error.to_string()));
        own.note(name, "deleting it", told).await?;
    }
}

async fn forget(at: &Here) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    if !is_there(at) {
        return Ok(());
    }
    let now = own.core.cluster(name).map_err(step_failed)?;
    let cleared = own.driver.clear(&now.name);
    let cleared = cleared.map_err(|error| StepError::transient(error.to_string()));
    own.note(name, "deleting it", cleared).await?;
    own.sight.forget(name);
    let operation = at.operation().to_string();
    let removed = own.core.remove_cluster(name, &operation);
    removed.await.map_err(step_failed)
}
