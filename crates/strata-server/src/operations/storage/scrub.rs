//! Reads all of the pool and holds it against its checksums; what is wrong
//! and is kept twice is mended.

use serde::{Deserialize, Serialize};
use strata_types::storage::Scrub;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{LONGEST, Storage, failed, teller};

/// Looks the pool over.
#[derive(Default)]
pub struct ScrubStorage;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubInput {}

type Here = At<ScrubStorage>;

impl Kind for ScrubStorage {
    type Input = ScrubInput;
    type Context = Storage;
    const NAME: &'static str = "storage-scrub";

    fn claims(&self, _: &ScrubInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &ScrubInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let scrub = Step::new("scrub", |at: Here| async move { scrub(&at).await });
        Ok(vec![scrub.timeout(LONGEST)])
    }
}

async fn scrub(at: &Here) -> Result<Scrub, StepError> {
    let pool = at.context.step_pool().await?;
    let tell = teller(at, "read");
    let done = in_turn!(pool.scrub(&tell, at.cancellation()));
    let done = done.map_err(failed)?;
    if done.uncorrectable > 0 {
        let count = done.uncorrectable;
        let why = format!(
            "{count} errors could not be mended: restore what is damaged from a backup, \
             and replace the device that has errors (strata storage show)"
        );
        return Err(StepError::permanent(why));
    }
    Ok(done)
}
