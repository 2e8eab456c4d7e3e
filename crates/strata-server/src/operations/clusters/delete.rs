//! Deletes a cluster: its machines are switched off, wiped and released, and
//! it is removed. There is no rollback, and none is tried.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Clusters, activity, machines};
use crate::core::Work;
use crate::operations::step_failed;

#[derive(Default)]
pub struct DeleteCluster;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteClusterInput {
    pub cluster: String,
    /// Its id: another of the same name is not meant.
    pub id: String,
}

const WIPE_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);
/// What cannot be wiped is tried again for days, and reported all the while.
const RETRY_LONG: Retry = Retry {
    attempts: 2000,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(120),
};

type Ctx = StepContext<DeleteCluster>;

impl Kind for DeleteCluster {
    type Input = DeleteClusterInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-delete";

    fn claims(&self, input: &DeleteClusterInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &DeleteClusterInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("machines", |ctx: Ctx| async move { take_down(&ctx).await })
                .timeout(WIPE_TIMEOUT)
                .retry(RETRY_LONG),
            Step::new(
                "forget",
                |ctx: Ctx| async move { remove_record(&ctx).await },
            )
            .retry(RETRY_LONG),
        ])
    }
}

/// Whether it is still the cluster that was meant.
fn is_there(ctx: &Ctx) -> bool {
    let found = ctx.context.core.cluster(&ctx.input.cluster);
    found.is_ok_and(|now| now.id == ctx.input.id)
}

async fn take_down(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    if !is_there(ctx) {
        return Ok(());
    }
    let operation = ctx.operation().to_string();
    own.set_work(name, Work::Deleting, &operation).await?;
    own.observations.request_refresh();
    loop {
        let now = own.core.newest_cluster(name).await.map_err(step_failed)?;
        let members = now.members.iter().map(|member| member.machine.to_string());
        let all: Vec<_> = members.collect();
        if all.is_empty() {
            return Ok(());
        }
        let gone = machines::take_down(ctx, name, &all).await;
        // A machine that is down is free at once; the others are listed and
        // tried again.
        let left = own.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.members
                .retain(|member| !own.is_down(member.machine.as_str()));
            Ok(next)
        });
        left.await.map_err(step_failed)?;
        let told = gone.map_err(|error| StepError::transient(error.to_string()));
        own.note(name, activity::DELETE, told).await?;
    }
}

async fn remove_record(ctx: &Ctx) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    if !is_there(ctx) {
        return Ok(());
    }
    let now = own.core.cluster(name).map_err(step_failed)?;
    let cleared = own.driver.clear(&now.name);
    let cleared = cleared.map_err(|error| StepError::transient(error.to_string()));
    own.note(name, activity::DELETE, cleared).await?;
    own.observations.remove(name);
    let operation = ctx.operation().to_string();
    let removed = own.core.remove_cluster(name, &operation);
    removed.await.map_err(step_failed)
}
