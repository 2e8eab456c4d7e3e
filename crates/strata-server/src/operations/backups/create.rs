//! Makes a backup: takes a frozen snapshot set, saves it, releases it, and
//! verifies the backup in the repository.

use serde::{Deserialize, Serialize};
use strata_backup::{BackupError, BackupRequest, RepairScope, Repaired, Source};
use strata_types::backup::{Backup, Retention};
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Backups, STEP_TIMEOUT, failed, progress_reporter, state, tag};
use crate::core::now_ms;
use crate::operations::step_failed;

#[derive(Default)]
pub struct CreateBackup;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupInput {
    /// At most so many bytes a second.
    pub bytes_per_second: Option<u64>,
    /// It is not verified.
    pub skip_verify: bool,
    /// All of the repository is read first; what is damaged is stored again.
    pub repair: bool,
    /// What is kept afterwards; nothing is removed when none is given.
    pub keep: Option<Retention>,
}

/// A frozen snapshot set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrozenSet {
    taken_at_ms: i64,
    volumes: Vec<String>,
}

/// All that was written must reach the disk first.
const FREEZE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20 * 60);

/// How long another process at work in the repository is waited for, and how
/// often that is checked: packs that changed are read again then.
const LOCK_WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30 * 60);
const LOCK_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);
/// How much of a new backup is read back.
const SAMPLE_PERCENT: u8 = 5;

type Ctx = StepContext<CreateBackup>;

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
            let repair = Step::new("repair", |ctx: Ctx| async move {
                Ok::<_, StepError>(repair(&ctx, RepairScope::All).await?)
            });
            steps.push(repair.timeout(STEP_TIMEOUT));
        }
        steps.extend([
            Step::new("freeze", |ctx: Ctx| async move { freeze(&ctx).await })
                .timeout(FREEZE_TIMEOUT)
                .undo(|ctx: Ctx| async move { thaw(&ctx).await }),
            Step::new("save", |ctx: Ctx| async move { save(&ctx).await })
                .timeout(STEP_TIMEOUT)
                .retry(Retry::default()),
            Step::new("thaw", |ctx: Ctx| async move { thaw(&ctx).await }),
        ]);
        if !input.skip_verify {
            let verify = Step::new("verify", |ctx: Ctx| async move { verify(&ctx).await });
            steps.push(verify.timeout(STEP_TIMEOUT));
        }
        if input.keep.is_some_and(|keep| !keep.keeps_all()) {
            let prune = Step::new("prune", |ctx: Ctx| async move { prune(&ctx).await });
            steps.push(prune.timeout(STEP_TIMEOUT));
        }
        Ok(steps)
    }
}

async fn freeze(ctx: &Ctx) -> Result<FrozenSet, StepError> {
    let (own, tag) = (&ctx.context, tag(ctx));
    let target = own.step_target()?;
    ctx.progress("freezing all volumes and the state");
    let mut volumes = Vec::new();
    // Records first: what they name is in the volumes then.
    let stored = state::keep(target, own.engine.as_ref(), &tag).await;
    let dir = stored.map_err(step_failed)?;
    if let Some(pool) = own.pool().await? {
        let frozen = pool.freeze(&tag).await;
        let frozen = frozen.map_err(|error| step_failed(error.into()))?;
        volumes = names(&frozen).map_err(StepError::transient)?;
    }
    Ok(FrozenSet {
        taken_at_ms: timestamp(&dir).unwrap_or_else(now_ms),
        volumes,
    })
}

/// When a directory was made: the same for every reader.
fn timestamp(dir: &std::path::Path) -> Option<i64> {
    let made = std::fs::metadata(dir).ok()?.modified().ok()?;
    let since = made.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

fn names(dir: &std::path::Path) -> std::io::Result<Vec<String>> {
    let entries = std::fs::read_dir(dir)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

async fn thaw(ctx: &Ctx) -> Result<(), StepError> {
    let (own, tag) = (&ctx.context, tag(ctx));
    if let Some(pool) = own.storage.existing().await.map_err(step_failed)? {
        let thawed = pool.thaw(&tag).await;
        thawed.map_err(|error| step_failed(error.into()))?;
    }
    state::remove_copy(own.step_target()?, &tag)
        .await
        .map_err(step_failed)
}

async fn save(ctx: &Ctx) -> Result<Backup, StepError> {
    let (own, tag) = (&ctx.context, tag(ctx));
    let target = own.step_target()?;
    let still: FrozenSet = ctx.output("freeze")?;
    // What is damaged is not taken to be there.
    repair_unlocked(ctx).await?;
    let mut sources = Vec::new();
    let dir = state::keep(target, own.engine.as_ref(), &tag).await;
    sources.push(Source {
        path: dir.map_err(step_failed)?,
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
    let ask = BackupRequest {
        sources,
        taken_at_ms: still.taken_at_ms,
        host: target.host.clone(),
        operation: ctx.operation().to_string(),
        volumes: still.volumes,
        has_state: true,
        bytes_per_second: ctx.input.bytes_per_second.or(target.bytes_per_second),
    };
    let saved = target
        .repository
        .backup(ask, progress_reporter(ctx), ctx.cancellation())
        .await;
    saved.map_err(failed)
}

/// Why a repair did not work.
enum RepairError {
    Step(StepError),
    Repository(BackupError),
}

impl From<BackupError> for RepairError {
    fn from(error: BackupError) -> Self {
        Self::Repository(error)
    }
}

impl From<RepairError> for StepError {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Step(error) => error,
            RepairError::Repository(error) => failed(error),
        }
    }
}

/// Finds packs that were damaged since they were last read. Another process
/// that is at work in the repository is waited for: a backup that went on
/// without would refer to what is damaged.
async fn repair_unlocked(ctx: &Ctx) -> Result<(), StepError> {
    let until = tokio::time::Instant::now() + LOCK_WAIT_TIMEOUT;
    loop {
        match repair(ctx, RepairScope::Changed).await {
            Err(RepairError::Repository(BackupError::Locked { by }))
                if tokio::time::Instant::now() < until =>
            {
                ctx.progress(format!(
                    "packs of the repository are damaged, and it is in use by {by}: waiting"
                ));
                tokio::select! {
                    () = ctx.cancelled() => return Err(StepError::Cancelled),
                    () = tokio::time::sleep(LOCK_POLL_INTERVAL) => {}
                }
            }
            other => return other.map(drop).map_err(StepError::from),
        }
    }
}

/// Has the repository do without packs that are damaged, so that what was in
/// them is stored again.
async fn repair(ctx: &Ctx, scope: RepairScope) -> Result<Repaired, RepairError> {
    let target = ctx.context.step_target().map_err(RepairError::Step)?;
    let repaired = target
        .repository
        .repair(scope, progress_reporter(ctx), ctx.cancellation())
        .await;
    let repaired = match repaired {
        // There is none yet.
        Err(BackupError::NoRepository { .. }) => return Ok(Repaired::default()),
        other => other?,
    };
    if !repaired.damaged.is_empty() {
        let (packs, lost) = (repaired.damaged.len(), repaired.lost);
        tracing::warn!(
            packs,
            saved = repaired.saved,
            lost,
            "damaged packs of the backup repository are excluded"
        );
        ctx.progress(format!(
            "{packs} packs were damaged; {} of their pieces were good, {lost} are stored again \
             where the data still exists",
            repaired.saved
        ));
    }
    if !repaired.indexes.is_empty() {
        let indexes = repaired.indexes.len();
        tracing::warn!(
            indexes,
            "damaged indexes of the backup repository are made again"
        );
        ctx.progress(format!("{indexes} indexes were damaged and are made again"));
    }
    if !repaired.set_aside.is_empty() {
        let ids = repaired.set_aside.join(", ");
        tracing::warn!(backups = %ids, "damaged snapshots of the backup repository are set aside");
        ctx.progress(format!(
            "backups {ids} cannot be read; their snapshots are in damaged/snapshots of the repository"
        ));
    }
    super::verify::warn_unreadable(ctx, &repaired.unreadable);
    Ok(repaired)
}

async fn verify(ctx: &Ctx) -> Result<(), StepError> {
    let saved: Backup = ctx.output("save")?;
    let target = ctx.context.step_target()?;
    let percent = if ctx.input.repair {
        100
    } else {
        SAMPLE_PERCENT
    };
    let verified = target.repository.verify(
        &saved.id,
        percent,
        progress_reporter(ctx),
        ctx.cancellation(),
    );
    let checked = super::verify::check_result(&verified.await.map_err(failed)?);
    if checked.is_err() {
        // The next backup stores again what this one took to be there.
        repair(ctx, RepairScope::All).await?;
    }
    checked
}

async fn prune(ctx: &Ctx) -> Result<(), StepError> {
    let target = ctx.context.step_target()?;
    let keep = ctx.input.keep.unwrap_or(target.keep);
    let pruned = target
        .repository
        .prune(&keep, progress_reporter(ctx), ctx.cancellation());
    let pruned = pruned.await;
    pruned.map(drop).map_err(failed)
}
