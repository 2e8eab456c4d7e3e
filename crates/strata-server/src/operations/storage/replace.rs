//! Puts a spare in the place of a device that fails, is gone, or is to go.

use serde::{Deserialize, Serialize};
use strata_types::storage::DeviceState;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{STEP_TIMEOUT, Storage, failed, progress_reporter};

#[derive(Default)]
pub struct ReplaceDevice;

/// Which, and by which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceInput {
    /// The device that goes.
    pub device: String,
    /// The spare that comes; chosen when none is given.
    #[serde(default)]
    pub with: String,
}

type Ctx = StepContext<ReplaceDevice>;

impl Kind for ReplaceDevice {
    type Input = ReplaceInput;
    type Context = Storage;
    const NAME: &'static str = "storage-replace";

    fn claims(&self, _: &ReplaceInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ReplaceInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("choose", |ctx: Ctx| async move { choose(&ctx).await }),
            Step::new("replace", |ctx: Ctx| async move { replace(&ctx).await })
                .timeout(STEP_TIMEOUT),
        ])
    }
}

/// The smallest spare that is large enough.
async fn choose(ctx: &Ctx) -> Result<String, StepError> {
    if !ctx.input.with.is_empty() {
        return Ok(ctx.input.with.clone());
    }
    let pool = ctx.context.step_pool().await?;
    let status = pool.status().await.map_err(failed)?;
    let name = &ctx.input.device;
    let old = status.devices.iter().find(|one| one.name == *name);
    let old = old.ok_or_else(|| StepError::permanent(format!("the pool has no device {name}")))?;
    let able = status.devices.iter();
    let able = able.filter(|one| one.state == DeviceState::Spare && one.bytes >= old.bytes);
    let chosen = able.min_by_key(|one| (one.bytes, one.name.clone()));
    let missing = || {
        StepError::permanent(format!(
            "no spare is as large as {name} ({}); add one: strata storage device add",
            super::bytes(old.bytes)
        ))
    };
    Ok(chosen.ok_or_else(missing)?.name.clone())
}

async fn replace(ctx: &Ctx) -> Result<(), StepError> {
    let pool = ctx.context.step_pool().await?;
    let with: String = ctx.output("choose")?;
    let tell = progress_reporter(ctx, "copied");
    let device = &ctx.input.device;
    let replaced = in_turn!(pool.replace_device(device, &with, &tell, ctx.cancellation()));
    replaced.map(drop).map_err(failed)
}
