//! Forgets backups that no rule keeps, and frees what only they had.

use serde::{Deserialize, Serialize};
use strata_types::backup::Retention;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{Backups, LONGEST, failed, teller};
use crate::operations::storage::bytes;

/// Forgets backups.
#[derive(Default)]
pub struct PruneBackups;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneInput {
    /// The rules.
    pub keep: Retention,
}

type Here = At<PruneBackups>;

impl Kind for PruneBackups {
    type Input = PruneInput;
    type Context = Backups;
    const NAME: &'static str = "backup-prune";

    fn claims(&self, _: &PruneInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &PruneInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let prune = Step::new("prune", |at: Here| async move { prune(&at).await });
        Ok(vec![prune.timeout(LONGEST)])
    }
}

async fn prune(at: &Here) -> Result<(), StepError> {
    let place = at.context.step_place()?;
    let keep = at.input.keep;
    let pruned = place.repository.prune(&keep, teller(at), at.cancellation());
    let pruned = pruned.await;
    let pruned = pruned.map_err(failed)?;
    let (count, freed) = (pruned.forgotten.len(), bytes(pruned.freed_bytes));
    at.progress(format!("{count} backups forgotten, {freed} freed"));
    Ok(())
}
