//! Puts a spare in the place of a device that fails, is gone, or is to go.

use serde::{Deserialize, Serialize};
use strata_types::storage::DeviceState;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{LONGEST, Storage, failed, teller};

/// Replaces a device.
#[derive(Default)]
pub struct ReplaceDevice;

/// Which, and by which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceInput {
    /// The device that goes.
    pub device: String,
    /// The spare that comes; chosen when none is said.
    #[serde(default)]
    pub with: String,
}

type Here = At<ReplaceDevice>;

impl Kind for ReplaceDevice {
    type Input = ReplaceInput;
    type Context = Storage;
    const NAME: &'static str = "storage-replace";

    fn claims(&self, _: &ReplaceInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ReplaceInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok(vec![
            Step::new("choose", |at: Here| async move { choose(&at).await }),
            Step::new("replace", |at: Here| async move { replace(&at).await }).timeout(LONGEST),
        ])
    }
}

/// The smallest spare that is large enough.
async fn choose(at: &Here) -> Result<String, StepError> {
    if !at.input.with.is_empty() {
        return Ok(at.input.with.clone());
    }
    let pool = at.context.step_pool().await?;
    let status = pool.status().await.map_err(failed)?;
    let name = &at.input.device;
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

async fn replace(at: &Here) -> Result<(), StepError> {
    let pool = at.context.step_pool().await?;
    let with: String = at.output("choose")?;
    let tell = teller(at, "copied");
    let device = &at.input.device;
    let replaced = in_turn!(pool.replace_device(device, &with, &tell, at.cancellation()));
    replaced.map(drop).map_err(failed)
}
