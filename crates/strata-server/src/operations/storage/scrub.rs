//! Reads all of the pool and holds it against its checksums; what is wrong
//! and is kept twice is repaired.

use serde::{Deserialize, Serialize};
use strata_types::storage::Scrub;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{STEP_TIMEOUT, Storage, failed, progress_reporter};

#[derive(Default)]
pub struct ScrubStorage;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubInput {}

type Ctx = StepContext<ScrubStorage>;

impl Kind for ScrubStorage {
    type Input = ScrubInput;
    type Context = Storage;
    const NAME: &'static str = "storage-scrub";

    fn claims(&self, _: &ScrubInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ScrubInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let scrub = Step::new("scrub", |ctx: Ctx| async move { scrub(&ctx).await });
        Ok(vec![scrub.timeout(STEP_TIMEOUT)])
    }
}

async fn scrub(ctx: &Ctx) -> Result<Scrub, StepError> {
    let pool = ctx.context.step_pool().await?;
    let tell = progress_reporter(ctx, "read");
    let done = in_turn!(pool.scrub(&tell, ctx.cancellation()));
    let done = done.map_err(failed)?;
    if done.uncorrectable > 0 {
        let count = done.uncorrectable;
        let why = format!(
            "{count} errors could not be repaired: restore what is damaged from a backup, \
             and replace the device that has errors (strata storage show)"
        );
        return Err(StepError::permanent(why));
    }
    Ok(done)
}
