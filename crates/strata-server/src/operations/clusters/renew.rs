//! Renews certificates of a cluster before they end: one machine after the
//! other, since each takes its part of the control plane away for a moment.

use serde::{Deserialize, Serialize};
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{Clusters, MEMBER_TIMEOUT, RETRY_SHORT, activity, driver_failed};
use crate::operations::step_failed;

/// Renews what ends soon.
#[derive(Default)]
pub struct RenewCluster;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewInput {
    pub cluster: String,
}

impl Kind for RenewCluster {
    type Input = RenewInput;
    type Context = Clusters;
    const NAME: &'static str = "cluster-renew";

    fn claims(&self, input: &RenewInput) -> Vec<Claim> {
        super::claims(&input.cluster)
    }

    fn steps(&self, _: &RenewInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let renew = Step::new("renew", |ctx: StepContext<Self>| async move {
            let done = renew(&ctx).await;
            ctx.context
                .note(&ctx.input.cluster, activity::RENEW, done)
                .await
        });
        Ok(vec![renew.timeout(2 * MEMBER_TIMEOUT).retry(RETRY_SHORT)])
    }
}

async fn renew(ctx: &StepContext<RenewCluster>) -> Result<(), StepError> {
    let (own, name) = (&ctx.context, &ctx.input.cluster);
    let facts = own.facts(name).await.map_err(step_failed)?;
    for member in facts.members.iter().filter(|member| member.joined) {
        ctx.safe_point()?;
        let id = &member.machine;
        ctx.progress(format!("{id}: checking certificates"));
        let renewed = own.driver.renew(&facts, member).await;
        if renewed.map_err(driver_failed)? {
            tracing::info!(cluster = name, machine = %id, "certificates renewed");
        }
    }
    let repaired = own.core.lead_cluster(name, |now| {
        let mut next = now.clone();
        next.failure
            .take_if(|failure| activity::is(&failure.what, activity::RENEW));
        Ok(next)
    });
    repaired.await.map(drop).map_err(step_failed)
}
