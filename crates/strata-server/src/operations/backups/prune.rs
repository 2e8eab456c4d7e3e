//! Removes backups that no rule keeps, and frees what only they had.

use serde::{Deserialize, Serialize};
use strata_types::backup::Retention;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{Backups, STEP_TIMEOUT, failed, progress_reporter};
use crate::operations::storage::bytes;

#[derive(Default)]
pub struct PruneBackups;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneInput {
    pub keep: Retention,
}

type Ctx = StepContext<PruneBackups>;

impl Kind for PruneBackups {
    type Input = PruneInput;
    type Context = Backups;
    const NAME: &'static str = "backup-prune";

    fn claims(&self, _: &PruneInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &PruneInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let prune = Step::new("prune", |ctx: Ctx| async move { prune(&ctx).await });
        Ok(vec![prune.timeout(STEP_TIMEOUT)])
    }
}

async fn prune(ctx: &Ctx) -> Result<(), StepError> {
    let target = ctx.context.step_target()?;
    let keep = ctx.input.keep;
    let pruned = target
        .repository
        .prune(&keep, progress_reporter(ctx), ctx.cancellation());
    let pruned = pruned.await;
    let pruned = pruned.map_err(failed)?;
    let (count, freed) = (pruned.forgotten.len(), bytes(pruned.freed_bytes));
    ctx.progress(format!("{count} backups removed, {freed} freed"));
    Ok(())
}
