//! `/backup/` and `/backup-schedule/`.

use axum::extract::State;
use strata_api::rest::{
    BackupSchedule, NewBackup, PruneKept, PrunePlan, PruneRequest, RestoreRequest, VerifyRequest,
};
use strata_backup::{BackupError, Repository};
use strata_types::{Error, Label};

use super::answer::{self, accepted};
use super::extract::{Asker, Json, Parameters, Thing};
use super::operations::begin;
use super::refusal::Answer;
use super::{RestState, json};
use crate::core::Page;
use crate::operations::{
    BackupInput, CreateBackup, PruneBackups, PruneInput, RestoreBackup, RestoreInput, VerifyBackup,
    VerifyInput,
};

const SAMPLE_PERCENT: u8 = 5;

fn repository(state: &RestState) -> Answer<&Repository> {
    Ok(&state.estate.backups.place()?.repository)
}

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset"])?;
    let (limit, offset) = parameters.piece()?;
    let all = match repository(&state)?.list().await {
        // None was ever made.
        Err(BackupError::NoRepository { .. }) => Vec::new(),
        other => other.map_err(Error::from)?,
    };
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: NewBackup = json::parse(&body)?;
    if asked.bytes_per_second == Some(0) {
        return Err(Error::invalid("bytesPerSecond", "must be more than 0").into());
    }
    repository(&state)?;
    let input = BackupInput {
        bytes_per_second: asked.bytes_per_second,
        skip_verify: asked.skip_verify,
        repair: asked.repair,
        keep: None,
    };
    begin::<CreateBackup>(&state, &who, &input).await
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(id): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let found = repository(&state)?.get(&id).await;
    answer::json(&found.map_err(Error::from)?)
}

pub(super) async fn restore(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(id): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let what: RestoreRequest = json::parse(&body)?;
    if what.volume.is_empty() && !(what.path.is_empty() && what.as_name.is_empty()) {
        return Err(Error::invalid("volume", "must be said with path or as").into());
    }
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if !what.path.is_empty() && what.path.trim_matches('/').split('/').any(odd) {
        return Err(Error::invalid("path", "is no path from the root of the volume").into());
    }
    if !what.as_name.is_empty() {
        Label::from_field("as", &what.as_name)?;
    }
    let backup = repository(&state)?.get(&id).await.map_err(Error::from)?;
    if !what.volume.is_empty() && !backup.volumes.contains(&what.volume) {
        let (volume, has) = (&what.volume, backup.volumes.join(", "));
        let why = format!("the backup has no volume {volume}; it has {has}");
        return Err(Error::not_found(why).in_field("volume").into());
    }
    if what.path.is_empty() {
        let named = match (what.as_name.as_str(), what.volume.as_str()) {
            ("", "") => backup.volumes.clone(),
            ("", volume) => vec![volume.to_owned()],
            (name, _) => vec![name.to_owned()],
        };
        for volume in &named {
            match what.replace {
                true => state.core.nobody_runs_on_pool_volume(volume)?,
                false => is_free(&state, volume).await?,
            }
        }
    }
    let backup = backup.id;
    begin::<RestoreBackup>(&state, &who, &RestoreInput { backup, what }).await
}

/// Refuses to restore onto a volume that is there.
async fn is_free(state: &RestState, volume: &str) -> Result<(), Error> {
    let Some(pool) = state.estate.storage.existing().await? else {
        return Ok(());
    };
    let there = pool.volumes().await.map_err(Error::from)?;
    match there.iter().any(|one| one.name == *volume) {
        true => {
            let why = format!("there is a volume {volume}: use replace, or another name");
            Err(Error::already_exists(why).with_hint(
                "say replace (--replace) to put it in its place, or as (--as) for another name",
            ))
        }
        false => Ok(()),
    }
}

pub(super) async fn verify(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(id): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: VerifyRequest = json::parse(&body)?;
    let percent = asked.percent.unwrap_or(SAMPLE_PERCENT);
    if !(1..=100).contains(&percent) {
        return Err(Error::invalid("percent", "must be 1 to 100").into());
    }
    let backup = repository(&state)?.get(&id).await.map_err(Error::from)?.id;
    begin::<VerifyBackup>(&state, &who, &VerifyInput { backup, percent }).await
}

/// Forgets what no rule keeps, or tells what that would be.
pub(super) async fn prune(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["dryRun"])?;
    let asked: PruneRequest = json::parse(&body)?;
    let place = state.estate.backups.place()?;
    let keep = asked.keep.unwrap_or(place.keep);
    if keep.keeps_all() {
        let error = Error::invalid("keep", "keeps everything: say at least one rule");
        return Err(error
            .with_hint("for example --keep-last 7, or [backup] in the configuration")
            .into());
    }
    if parameters.flag("dryRun")? {
        let plan = place
            .repository
            .plan_prune(&keep)
            .await
            .map_err(Error::from)?;
        let kept = plan.keep.into_iter().map(|one| PruneKept {
            id: one.id,
            because: one.because.iter().map(|&rule| rule.to_owned()).collect(),
        });
        return answer::json(&PrunePlan {
            keep: kept.collect(),
            forget: plan.forget,
        });
    }
    begin::<PruneBackups>(&state, &who, &PruneInput { keep }).await
}

pub(super) async fn schedules(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset"])?;
    let (limit, offset) = parameters.piece()?;
    let page = Page::of(state.core.schedules().await?.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

pub(super) async fn put_schedule(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let new: BackupSchedule = json::parse(&body)?;
    answer::json(&state.core.put_schedule(&who, new).await?)
}

pub(super) async fn show_schedule(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    answer::json(&state.core.schedule(&name).await?)
}

pub(super) async fn remove_schedule(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    state.core.remove_schedule(&who, &name).await?;
    Ok(accepted())
}
