//! Checks whether a backup can be restored, by restoring some of it.

use serde::{Deserialize, Serialize};
use strata_backup::Verified;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{Backups, STEP_TIMEOUT, failed, progress_reporter};

/// Checks whether a backup can be restored.
#[derive(Default)]
pub struct VerifyBackup;

/// Which, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyInput {
    pub backup: String,
    /// How much is read back, in percent.
    pub percent: u8,
}

/// How many damaged things are named.
const NAMED: usize = 10;

type Ctx = StepContext<VerifyBackup>;

impl Kind for VerifyBackup {
    type Input = VerifyInput;
    type Context = Backups;
    const NAME: &'static str = "backup-verify";

    fn claims(&self, _: &VerifyInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, _: &VerifyInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let verify = Step::new("verify", |ctx: Ctx| async move { verify(&ctx).await });
        Ok(vec![verify.timeout(STEP_TIMEOUT)])
    }
}

async fn verify(ctx: &Ctx) -> Result<(), StepError> {
    let target = ctx.context.step_target()?;
    let (backup, percent) = (&ctx.input.backup, ctx.input.percent);
    let verified =
        target
            .repository
            .verify(backup, percent, progress_reporter(ctx), ctx.cancellation());
    let verified = verified.await.map_err(failed)?;
    warn_unreadable(ctx, &verified.unreadable);
    check_result(&verified)
}

/// Names backups whose snapshots are damaged. They harm no other backup.
pub(super) fn warn_unreadable<K: Kind>(ctx: &StepContext<K>, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    let ids = ids.join(", ");
    tracing::warn!(backups = %ids, "snapshots of the backup repository are damaged");
    ctx.progress(format!(
        "backups {ids} cannot be read, and block every prune; move them aside: strata backup repair"
    ));
}

/// Damage is an error here, with what is damaged.
pub(super) fn check_result(verified: &Verified) -> Result<(), StepError> {
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
