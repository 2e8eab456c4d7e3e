//! Makes the pool smaller: what is on a device is moved to the others while
//! the pool is used, then the device waits as a spare; or only a part of a
//! device is used from then on. Cancelled, the device stays, with whatever had
//! not been moved.

use serde::{Deserialize, Serialize};
use strata_types::storage::ShrinkPlan;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{LONGEST, Storage, failed, resize_step, teller};

/// Makes the pool smaller.
#[derive(Default)]
pub struct ShrinkStorage;

/// By how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShrinkInput {
    /// By at most so much, for users.
    pub max_bytes: u64,
}

type Here = At<ShrinkStorage>;

impl Kind for ShrinkStorage {
    type Input = ShrinkInput;
    type Context = Storage;
    const NAME: &'static str = "storage-shrink";

    fn claims(&self, _: &ShrinkInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ShrinkInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![Step::new("plan", |at: Here| async move { plan(&at).await })];
        let Some(plan) = outputs.find::<ShrinkPlan>("plan")? else {
            return Ok(steps);
        };
        for name in plan.devices {
            let back = name.clone();
            let remove = Step::new(format!("remove {name}"), move |at: Here| {
                let name = name.clone();
                async move { remove(&at, &name).await }
            });
            let remove = remove.undo(move |at: Here| {
                let name = back.clone();
                async move { add(&at, &name).await }
            });
            steps.push(remove.timeout(LONGEST));
        }
        steps.extend(plan.resized.into_iter().map(resize_step));
        Ok(steps)
    }
}

async fn plan(at: &Here) -> Result<ShrinkPlan, StepError> {
    let pool = at.context.step_pool().await?;
    let plan = pool.plan_shrink(at.input.max_bytes).await;
    plan.map_err(failed)
}

async fn remove(at: &Here, name: &str) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    at.safe_point()?;
    let tell = teller(at, "moved away");
    let removed = in_turn!(pool.remove_device(name, &tell, at.cancellation()));
    removed.map_err(failed)
}

/// In use again, or still.
async fn add(at: &Here, name: &str) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    let added = in_turn!(pool.add_device(name));
    added.map(drop).map_err(failed)
}
