//! Makes the pool larger: more is used of devices that are used in part, and
//! spares are used, one after the other, by as much as was asked for.

use serde::{Deserialize, Serialize};
use strata_types::storage::ExpandPlan;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{LONGEST, Storage, failed, resize_step, teller};

/// Makes the pool larger.
#[derive(Default)]
pub struct ExpandStorage;

/// By how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandInput {
    /// By at least so much, for users.
    pub min_bytes: u64,
}

type Here = At<ExpandStorage>;

impl Kind for ExpandStorage {
    type Input = ExpandInput;
    type Context = Storage;
    const NAME: &'static str = "storage-expand";

    fn claims(&self, _: &ExpandInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ExpandInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![Step::new("plan", |at: Here| async move { plan(&at).await })];
        let Some(plan) = outputs.find::<ExpandPlan>("plan")? else {
            return Ok(steps);
        };
        for name in plan.devices {
            let back = name.clone();
            let add = Step::new(format!("add {name}"), move |at: Here| {
                let name = name.clone();
                async move { add(&at, &name).await }
            });
            let add = add.undo(move |at: Here| {
                let name = back.clone();
                async move { remove(&at, &name).await }
            });
            steps.push(add.undo_timeout(LONGEST));
        }
        steps.extend(plan.resized.into_iter().map(resize_step));
        let whole = Step::new("spread", |at: Here| async move { whole(&at).await });
        steps.push(whole.timeout(LONGEST));
        Ok(steps)
    }
}

async fn plan(at: &Here) -> Result<ExpandPlan, StepError> {
    let pool = at.context.step_pool().await?;
    let plan = pool.plan_expand(at.input.min_bytes).await;
    plan.map_err(failed)
}

async fn add(at: &Here, name: &str) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    at.progress(format!("{name} is added to the pool"));
    let added = in_turn!(pool.add_device(name));
    added.map(drop).map_err(failed)
}

async fn remove(at: &Here, name: &str) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    let tell = teller(at, "moved back");
    let removed = in_turn!(pool.remove_device(name, &tell, at.cancellation()));
    removed.map_err(failed)
}

/// Where data is not kept as often as asked, it is now.
async fn whole(at: &Here) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    let tell = teller(at, "kept as often as asked");
    let whole = in_turn!(pool.make_whole(&tell, at.cancellation()));
    whole.map_err(failed)
}
