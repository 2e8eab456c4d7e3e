//! Brings volumes back, or one file of a volume. A volume is written beside
//! the one that is there and takes its place in one step; what was there stays
//! as a snapshot.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_backup::RestoreOptions;
use strata_storage::StoragePool;
use strata_types::Label;
use strata_types::backup::RestoreRequest;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{Backups, STEP_TIMEOUT, failed, progress_reporter, tag};
use crate::operations::{amount, step_failed};

/// How often the room of the pool is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Restores what a backup holds.
#[derive(Default)]
pub struct RestoreBackup;

/// Which, and what of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreInput {
    pub backup: String,
    pub what: RestoreRequest,
}

/// What is to be done, once the backup was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    id: String,
    /// The volumes, and what they are to be called.
    volumes: Vec<(String, Label)>,
}

type Ctx = StepContext<RestoreBackup>;

impl Kind for RestoreBackup {
    type Input = RestoreInput;
    type Context = Backups;
    const NAME: &'static str = "backup-restore";

    fn claims(&self, _: &RestoreInput) -> Vec<Claim> {
        super::claims()
    }

    fn steps(&self, input: &RestoreInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![Step::new(
            "find",
            |ctx: Ctx| async move { find(&ctx).await },
        )];
        let Some(found) = outputs.find::<Found>("find")? else {
            return Ok(steps);
        };
        if !input.what.path.is_empty() {
            let file = Step::new("restore", |ctx: Ctx| async move { file(&ctx).await });
            let file = file.undo(|ctx: Ctx| async move { remove_file(&ctx).await });
            steps.push(file.timeout(STEP_TIMEOUT));
            steps.push(Step::new("put in place", |ctx: Ctx| async move {
                place_file(&ctx).await
            }));
            return Ok(steps);
        }
        for (from, to) in found.volumes.clone() {
            let id = found.id.clone();
            let write = Step::new(format!("restore {to}"), move |ctx: Ctx| {
                let (id, from, to) = (id.clone(), from.clone(), to.clone());
                async move { write(&ctx, &id, &from, &to).await }
            });
            let write = write.undo(|ctx: Ctx| async move { remove_copy(&ctx).await });
            steps.push(write.timeout(STEP_TIMEOUT));
        }
        for (_, to) in found.volumes {
            steps.push(Step::new(format!("put in place {to}"), move |ctx: Ctx| {
                let to = to.clone();
                async move { adopt(&ctx, &to).await }
            }));
        }
        steps.push(Step::new("clear", |ctx: Ctx| async move {
            remove_copy(&ctx).await
        }));
        Ok(steps)
    }
}

async fn find(ctx: &Ctx) -> Result<Found, StepError> {
    let (own, what) = (&ctx.context, &ctx.input.what);
    let target = own.step_target()?;
    let backup = target.repository.get(&ctx.input.backup).await;
    let backup = backup.map_err(failed)?;
    let selected = |name: &String| what.volume.is_empty() || *name == what.volume;
    let names: Vec<String> = backup
        .volumes
        .iter()
        .filter(|name| selected(name))
        .cloned()
        .collect();
    if names.is_empty() {
        let has = backup.volumes.join(", ");
        let why = match what.volume.as_str() {
            "" => "the backup has no volumes".to_owned(),
            name => format!("the backup has no volume {name}; it has {has}"),
        };
        return Err(StepError::permanent(why));
    }
    let pool = own.storage.pool().await.map_err(step_failed)?;
    let there = pool
        .volumes()
        .await
        .map_err(|error| step_failed(error.into()))?;
    let mut volumes = Vec::new();
    for name in names {
        let to = match what.as_name.as_str() {
            "" => name.as_str(),
            other => other,
        };
        let to = Label::from_field("as", to).map_err(step_failed)?;
        let is_there = there.iter().any(|one| one.name == to.as_str());
        if is_there && !what.replace && what.path.is_empty() {
            let why = format!("there is a volume {to}: use replace, or another name");
            return Err(StepError::permanent(why));
        }
        volumes.push((name, to));
    }
    let id = backup.id;
    let found = Found { id, volumes };
    check_room(ctx, &found).await?;
    Ok(found)
}

/// Refuses what does not fit beside what is there with the pool's reserve:
/// instances write to the same pool.
async fn check_room(ctx: &Ctx, found: &Found) -> Result<(), StepError> {
    let (own, path) = (&ctx.context, ctx.input.what.path.trim_matches('/'));
    let target = own.step_target()?;
    let mut needed = 0_u64;
    for (from, _) in &found.volumes {
        let from = match path {
            "" => format!("/volumes/{from}"),
            path => format!("/volumes/{from}/data/{path}"),
        };
        let bytes = target.repository.measure(&found.id, &from).await;
        needed = needed.saturating_add(bytes.map_err(failed)?);
    }
    let pool = own.storage.pool().await.map_err(step_failed)?;
    if room(&pool).await? >= needed {
        return Ok(());
    }
    // What was deleted a moment ago counts as free.
    let settled = pool.settle().await;
    settled.map_err(|error| step_failed(error.into()))?;
    let room = room(&pool).await?;
    if room >= needed {
        return Ok(());
    }
    let (needed, room) = (amount(needed), amount(room));
    let reserve = amount(pool.reserve_bytes());
    Err(StepError::permanent(format!(
        "the restore takes {needed}, and {room} are free beside the reserve of {reserve}: \
         make room, or expand the pool: strata storage expand"
    )))
}

/// What can be written without touching the reserve.
async fn room(pool: &StoragePool) -> Result<u64, StepError> {
    let status = pool.status().await;
    let status = status.map_err(|error| step_failed(error.into()))?;
    Ok(status.free_bytes.saturating_sub(pool.reserve_bytes()))
}

/// Restores, and abandons when the pool comes to its reserve: others write to
/// it too.
async fn restore_within(
    ctx: &Ctx,
    pool: &StoragePool,
    id: &str,
    ask: RestoreOptions,
) -> Result<(), StepError> {
    let target = ctx.context.step_target()?;
    let restoring = target
        .repository
        .restore(id, ask, progress_reporter(ctx), ctx.cancellation());
    let full = async {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let status = pool.status().await;
            let low = |free: u64| free < pool.reserve_bytes() / 2;
            if status.is_ok_and(|status| low(status.free_bytes)) {
                break;
            }
        }
    };
    tokio::select! {
        restored = restoring => restored.map(drop).map_err(failed),
        () = full => Err(StepError::permanent(
            "the pool is full but for its reserve: what was restored is taken away; \
             make room, or expand the pool: strata storage expand",
        )),
    }
}

async fn write(ctx: &Ctx, id: &str, from: &str, to: &Label) -> Result<(), StepError> {
    let (own, tag) = (&ctx.context, tag(ctx));
    let pool = own.storage.pool().await.map_err(step_failed)?;
    // What an earlier try had written is written again.
    let unstaged = pool.unstage_volume(&tag, to).await;
    unstaged.map_err(|error| step_failed(error.into()))?;
    let staged = pool.stage(&tag, to).await;
    let ask = RestoreOptions {
        from: format!("/volumes/{from}"),
        to: staged.map_err(|error| step_failed(error.into()))?,
    };
    restore_within(ctx, &pool, id, ask).await
}

async fn adopt(ctx: &Ctx, to: &Label) -> Result<(), StepError> {
    let pool = ctx.context.storage.pool().await.map_err(step_failed)?;
    // They may have been started since this was requested.
    (ctx.context.resting)(to.as_str()).map_err(step_failed)?;
    let adopted = pool.adopt(&tag(ctx), to, ctx.input.what.replace).await;
    adopted.map(drop).map_err(|error| step_failed(error.into()))
}

async fn remove_copy(ctx: &Ctx) -> Result<(), StepError> {
    let pool = ctx.context.storage.pool().await.map_err(step_failed)?;
    let gone = pool.unstage(&tag(ctx)).await;
    gone.map_err(|error| step_failed(error.into()))?;
    // The next restore finds the room.
    pool.settle()
        .await
        .map_err(|error| step_failed(error.into()))
}

/// One file or directory, into the volume as it is.
async fn file(ctx: &Ctx) -> Result<(), StepError> {
    let (own, what, tag) = (&ctx.context, &ctx.input.what, tag(ctx));
    let found: Found = ctx.output("find")?;
    let Some((from, to)) = found.volumes.first() else {
        return Err(StepError::permanent("the volume is not named"));
    };
    let pool = own.storage.pool().await.map_err(step_failed)?;
    let path = what.path.trim_matches('/');
    let staged = pool.stage_file(&tag, to).await;
    let staged = staged.map_err(|error| step_failed(error.into()))?;
    let ask = RestoreOptions {
        from: format!("/volumes/{from}/data/{path}"),
        to: staged,
    };
    restore_within(ctx, &pool, &found.id, ask).await
}

async fn place_file(ctx: &Ctx) -> Result<(), StepError> {
    let what = &ctx.input.what;
    let found: Found = ctx.output("find")?;
    let Some((_, to)) = found.volumes.first() else {
        return Err(StepError::permanent("the volume is not named"));
    };
    let pool = ctx.context.storage.pool().await.map_err(step_failed)?;
    let path = what.path.trim_matches('/');
    let placed = pool.place_file(&tag(ctx), to, path, what.replace).await;
    placed.map_err(|error| step_failed(error.into()))
}

async fn remove_file(ctx: &Ctx) -> Result<(), StepError> {
    let Some(found) = ctx.outputs().find::<Found>("find")? else {
        return Ok(());
    };
    let pool = ctx.context.storage.pool().await.map_err(step_failed)?;
    for (_, to) in found.volumes {
        let gone = pool.unstage_file(&tag(ctx), &to).await;
        gone.map_err(|error| step_failed(error.into()))?;
    }
    Ok(())
}
