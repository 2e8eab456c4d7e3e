//! Makes the pool smaller: what is on a device is moved to the others while
//! the pool is used, then the device waits as a spare; or only a part of a
//! device is used from then on. Cancelled, the device stays, with whatever had
//! not been moved.

use serde::{Deserialize, Serialize};
use strata_storage::StorageError;
use strata_types::storage::ShrinkPlan;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{STEP_TIMEOUT, Shortfall, Storage, bytes, failed, progress_reporter, resize_step};

/// Makes the pool smaller.
#[derive(Default)]
pub struct ShrinkStorage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShrinkInput {
    /// By at most so much, for users.
    pub max_bytes: u64,
}

type Ctx = StepContext<ShrinkStorage>;

impl Kind for ShrinkStorage {
    type Input = ShrinkInput;
    type Context = Storage;
    const NAME: &'static str = "storage-shrink";

    fn claims(&self, _: &ShrinkInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ShrinkInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![Step::new(
            "plan",
            |ctx: Ctx| async move { plan(&ctx).await },
        )];
        let Some(plan) = outputs.find::<ShrinkPlan>("plan")? else {
            return Ok(steps);
        };
        for name in plan.devices {
            let back = name.clone();
            let remove = Step::new(format!("remove {name}"), move |ctx: Ctx| {
                let name = name.clone();
                async move { remove(&ctx, &name).await }
            });
            let remove = remove.undo(move |ctx: Ctx| {
                let name = back.clone();
                async move { add(&ctx, &name).await }
            });
            steps.push(remove.timeout(STEP_TIMEOUT));
        }
        steps.extend(plan.resized.into_iter().map(resize_step));
        Ok(steps)
    }
}

async fn plan(ctx: &Ctx) -> Result<ShrinkPlan, StepError> {
    let pool = ctx.context.step_pool().await?;
    let plan = pool.plan_shrink(ctx.input.max_bytes).await;
    plan.map_err(failed)
}

/// A device whose data finds no room elsewhere stays: at most what was
/// requested is released, and it may be less.
async fn remove(ctx: &Ctx, name: &str) -> Result<Shortfall, StepError> {
    let pool = ctx.context.step_pool().await?;
    ctx.safe_point()?;
    let tell = progress_reporter(ctx, "moved away");
    match in_turn!(pool.remove_device(name, &tell, ctx.cancellation())) {
        Ok(()) => Ok(Shortfall::default()),
        Err(StorageError::Full { .. }) => {
            let kept_bytes = pool.given_by(name).await.map_err(failed)?;
            let kept = bytes(kept_bytes);
            ctx.progress(format!(
                "{name} stays with {kept}: no room to move its data"
            ));
            Ok(Shortfall { kept_bytes })
        }
        Err(error) => Err(failed(error)),
    }
}

/// In use again, or still.
async fn add(ctx: &Ctx, name: &str) -> Result<(), StepError> {
    let pool = ctx.context.step_pool().await?;
    let added = in_turn!(pool.add_device(name));
    added.map(drop).map_err(failed)
}
