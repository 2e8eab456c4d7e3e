//! Renews certificates of a cluster before they end: one machine after the
//! other, since each takes its part of the control plane away for a moment.

use serde::{Deserialize, Serialize};
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{Clusters, MEMBER, PATIENT, driver_failed};
use crate::operations::step_failed;

/// Renews what ends soon.
#[derive(Default)]
pub struct RenewCluster;

/// Of which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewInput {
    /// The cluster.
    pub cluster: String,
}

const WHAT: &str = "renewing certificates";

impl Kind for RenewCluster {
    type Input = RenewInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-renew";

    fn claims(&self, input: &RenewInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &RenewInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let renew = Step::new("renew", |at: At<Self>| async move {
            let done = renew(&at).await;
            at.context.note(&at.input.cluster, WHAT, done).await
        });
        Ok(vec![renew.timeout(2 * MEMBER).retry(PATIENT)])
    }
}

async fn renew(at: &At<RenewCluster>) -> Result<(), StepError> {
    let (own, name) = (&at.context, &at.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    for member in facts.members.iter().filter(|member| member.joined) {
        at.safe_point()?;
        let id = &member.machine;
        at.progress(format!("{id}: looking at its certificates"));
        let renewed = own.driver.renew(&facts, member).await;
        if renewed.map_err(driver_failed)? {
            tracing::info!(cluster = name, machine = %id, "certificates renewed");
        }
    }
    let mended = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.failure.take_if(|failure| failure.what == WHAT);
        Ok(next)
    });
    mended.await.map(drop).map_err(step_failed)
}
