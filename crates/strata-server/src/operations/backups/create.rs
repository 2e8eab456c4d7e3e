//! Makes a backup: one moment is kept still, saved, let go, and looked at
//! again in the repository.

use serde::{Deserialize, Serialize};
use strata_backup::{BackupAsk, BackupError, RepairScope, Repaired, Source};
use strata_types::backup::{Backup, Retention};
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Backups, LONGEST, failed, state, tag, teller};
use crate::core::now_ms;
use crate::operations::step_failed;

/// Makes a backup.
#[derive(Default)]
pub struct CreateBackup;

/// How.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupInput {
    /// At most so many bytes a second.
    pub bytes_per_second: Option<u64>,
    /// It is not looked at again.
    pub skip_verify: bool,
    /// All of the repository is read first; what is damaged is stored again.
    pub repair: bool,
    /// What is kept afterwards; nothing is forgotten when none is said.
    pub keep: Option<Retention>,
}

/// A moment that is kept still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Still {
    taken_at_ms: i64,
    volumes: Vec<String>,
}

/// All that was written must reach the disk first.
const FREEZING: std::time::Duration = std::time::Duration::from_secs(20 * 60);
/// How much of a new backup is read back.
const SAMPLE_PERCENT: u8 = 5;

type Here = At<CreateBackup>;

impl Kind for CreateBackup {
    type Input = BackupInput;
    type Context = Backups;
    const NAME: &'static str = "backup-create";

    fn claims(&self, _: &BackupInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, input: &BackupInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = Vec::new();
        if input.repair {
            let repair = Step::new("repair", |at: Here| async move {
                repair(&at, RepairScope::All).await
            });
            steps.push(repair.timeout(LONGEST));
        }
        steps.extend([
            Step::new("freeze", |at: Here| async move { freeze(&at).await })
                .timeout(FREEZING)
                .undo(|at: Here| async move { thaw(&at).await }),
            Step::new("save", |at: Here| async move { save(&at).await })
                .timeout(LONGEST)
                .retry(Retry::default()),
            Step::new("thaw", |at: Here| async move { thaw(&at).await }),
        ]);
        if !input.skip_verify {
            let verify = Step::new("verify", |at: Here| async move { verify(&at).await });
            steps.push(verify.timeout(LONGEST));
        }
        if input.keep.is_some_and(|keep| !keep.keeps_all()) {
            let prune = Step::new("prune", |at: Here| async move { prune(&at).await });
            steps.push(prune.timeout(LONGEST));
        }
        Ok(steps)
    }
}

async fn freeze(at: &Here) -> Result<Still, StepError> {
    let (own, tag) = (&at.context, tag(at));
    let place = own.step_place()?;
    at.progress("keeping all volumes and the state as they are now");
    let mut volumes = Vec::new();
    // Records first: what they speak of is in the volumes then.
    let kept = state::keep(place, own.engine.as_ref(), &tag).await;
    let folder = kept.map_err(step_failed)?;
    if let Some(pool) = own.pool().await? {
        let frozen = pool.freeze(&tag).await;
        let frozen = frozen.map_err(|error| step_failed(error.into()))?;
        volumes = names(&frozen).map_err(StepError::transient)?;
    }
    Ok(Still {
        taken_at_ms: moment(&folder).unwrap_or_else(now_ms),
        volumes,
    })
}

/// When a folder was made: the same whoever looks.
fn moment(folder: &std::path::Path) -> Option<i64> {
    let made = std::fs::metadata(folder).ok()?.modified().ok()?;
    let since = made.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

fn names(folder: &std::path::Path) -> std::io::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

async fn thaw(at: &Here) -> Result<(), StepError> {
    let (own, tag) = (&at.context, tag(at));
    if let Some(pool) = own.storage.existing().await.map_err(step_failed)? {
        let thawed = pool.thaw(&tag).await;
        thawed.map_err(|error| step_failed(error.into()))?;
    }
    state::forget(own.step_place()?, &tag)
        .await
        .map_err(step_failed)
}

async fn save(at: &Here) -> Result<Backup, StepError> {
    let (own, tag) = (&at.context, tag(at));
    let place = own.step_place()?;
    let still: Still = at.output("freeze")?;
    // What is damaged is not taken to be there.
    repair(at, RepairScope::Changed).await?;
    let mut sources = Vec::new();
    let folder = state::keep(place, own.engine.as_ref(), &tag).await;
    sources.push(Source {
        path: folder.map_err(step_failed)?,
        at: "/state".into(),
    });
    if let Some(pool) = own.pool().await? {
        let frozen = pool.freeze(&tag).await;
        let frozen = frozen.map_err(|error| step_failed(error.into()))?;
        sources.extend(still.volumes.iter().map(|name| Source {
            path: frozen.join(name),
            at: format!("/volumes/{name}"),
        }));
    }
    let ask = BackupAsk {
        sources,
        taken_at_ms: still.taken_at_ms,
        host: place.host.clone(),
        operation: at.operation().to_string(),
        volumes: still.volumes,
        has_state: true,
        bytes_per_second: at.input.bytes_per_second.or(place.bytes_per_second),
    };
    let saved = place
        .repository
        .backup(ask, teller(at), at.cancellation())
        .await;
    saved.map_err(failed)
}

/// Has the repository do without packs that are damaged, so that what was in
/// them is stored again.
async fn repair(at: &Here, scope: RepairScope) -> Result<Repaired, StepError> {
    let place = at.context.step_place()?;
    let repaired = place
        .repository
        .repair(scope, teller(at), at.cancellation())
        .await;
    let repaired = match repaired {
        // There is none yet.
        Err(BackupError::NoRepository { .. }) => return Ok(Repaired::default()),
        // Another reads it: what it has is looked at the next time.
        Err(BackupError::Locked { .. }) if scope == RepairScope::Changed => {
            return Ok(Repaired::default());
        }
        other => other.map_err(failed)?,
    };
    if !repaired.damaged.is_empty() {
        let (packs, lost) = (repaired.damaged.len(), repaired.lost);
        tracing::warn!(
            packs,
            saved = repaired.saved,
            lost,
            "damaged packs of the repository are not used any more"
        );
        at.progress(format!(
            "{packs} packs were damaged; {} of their pieces were good, {lost} are stored again \
             where the data still exists",
            repaired.saved
        ));
    }
    Ok(repaired)
}

async fn verify(at: &Here) -> Result<(), StepError> {
    let saved: Backup = at.output("save")?;
    let place = at.context.step_place()?;
    let percent = if at.input.repair { 100 } else { SAMPLE_PERCENT };
    let verified = place
        .repository
        .verify(&saved.id, percent, teller(at), at.cancellation());
    let judged = super::verify::judge(&verified.await.map_err(failed)?);
    if judged.is_err() {
        // The next backup stores again what this one took to be there.
        repair(at, RepairScope::All).await?;
    }
    judged
}

async fn prune(at: &Here) -> Result<(), StepError> {
    let place = at.context.step_place()?;
    let keep = at.input.keep.unwrap_or(place.keep);
    let pruned = place.repository.prune(&keep, teller(at), at.cancellation());
    let pruned = pruned.await;
    pruned.map(drop).map_err(failed)
}
