//! Looks whether a backup can be restored, by restoring some of it.

use serde::{Deserialize, Serialize};
use strata_backup::Verified;
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::{Backups, LONGEST, failed, teller};

/// Looks whether a backup can be restored.
#[derive(Default)]
pub struct VerifyBackup;

/// Which, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyInput {
    /// The backup.
    pub backup: String,
    /// How much is read back, in percent.
    pub percent: u8,
}

/// How many damaged things are named.
const NAMED: usize = 10;

type Here = At<VerifyBackup>;

impl Kind for VerifyBackup {
    type Input = VerifyInput;
    type Context = Backups;
    const NAME: &'static str = "backup-verify";

    fn claims(&self, _: &VerifyInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &VerifyInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let verify = Step::new("verify", |at: Here| async move { verify(&at).await });
        Ok(vec![verify.timeout(LONGEST)])
    }
}

async fn verify(at: &Here) -> Result<(), StepError> {
    let place = at.context.step_place()?;
    let (backup, percent) = (&at.input.backup, at.input.percent);
    let verified = place
        .repository
        .verify(backup, percent, teller(at), at.cancellation());
    let verified = verified.await;
    judge(&verified.map_err(failed)?)
}

/// Damage is an error here, with what is damaged.
pub(super) fn judge(verified: &Verified) -> Result<(), StepError> {
    if verified.is_sound() {
        return Ok(());
    }
    let damage = verified.damage.iter().take(NAMED);
    let named = damage.map(|one| format!("{}: {}", one.path.display(), one.what));
    let mut named: Vec<String> = named.collect();
    let more = verified.damage.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    Err(StepError::permanent(format!(
        "backup {} is damaged: {}; store again what is damaged: strata backup repair; \
         and look at the disk of the repository",
        verified.id,
        named.join("; ")
    )))
}
