//! Makes the storage pool larger: more is used of devices that are used in
//! part, and spares are used, one after the other, by as much as was requested.

use serde::{Deserialize, Serialize};
use strata_types::storage::ExpandPlan;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{STEP_TIMEOUT, Storage, failed, progress_reporter, resize_step};

/// Makes the pool larger.
#[derive(Default)]
pub struct ExpandStorage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandInput {
    /// By at least so much, for users.
    pub min_bytes: u64,
}

type Ctx = StepContext<ExpandStorage>;

impl Kind for ExpandStorage {
    type Input = ExpandInput;
    type Context = Storage;
    const NAME: &'static str = "storage-expand";

    fn claims(&self, _: &ExpandInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ExpandInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![Step::new(
            "plan",
            |ctx: Ctx| async move { plan(&ctx).await },
        )];
        let Some(plan) = outputs.find::<ExpandPlan>("plan")? else {
            return Ok(steps);
        };
        for name in plan.devices {
            let back = name.clone();
            let add = Step::new(format!("add {name}"), move |ctx: Ctx| {
                let name = name.clone();
                async move { add(&ctx, &name).await }
            });
            let add = add.undo(move |ctx: Ctx| {
                let name = back.clone();
                async move { remove(&ctx, &name).await }
            });
            steps.push(add.undo_timeout(STEP_TIMEOUT));
        }
        steps.extend(plan.resized.into_iter().map(resize_step));
        let rebalance = Step::new("spread", |ctx: Ctx| async move { rebalance(&ctx).await });
        steps.push(rebalance.timeout(STEP_TIMEOUT));
        Ok(steps)
    }
}

async fn plan(ctx: &Ctx) -> Result<ExpandPlan, StepError> {
    let pool = ctx.context.step_pool().await?;
    let plan = pool.plan_expand(ctx.input.min_bytes).await;
    plan.map_err(failed)
}

async fn add(ctx: &Ctx, name: &str) -> Result<(), StepError> {
    let pool = ctx.context.step_pool().await?;
    ctx.progress(format!("{name} is added to the pool"));
    let added = in_turn!(pool.add_device(name));
    added.map(drop).map_err(failed)
}

async fn remove(ctx: &Ctx, name: &str) -> Result<(), StepError> {
    let pool = ctx.context.step_pool().await?;
    let tell = progress_reporter(ctx, "moved back");
    let removed = in_turn!(pool.remove_device(name, &tell, ctx.cancellation()));
    removed.map_err(failed)
}

/// Where data has fewer copies than configured, the missing ones are made.
async fn rebalance(ctx: &Ctx) -> Result<(), StepError> {
    let pool = ctx.context.step_pool().await?;
    let tell = progress_reporter(ctx, "redundant");
    let rebalance = in_turn!(pool.rebalance(&tell, ctx.cancellation()));
    rebalance.map_err(failed)
}
