//! `/storage`: the pool, its devices, its volumes.

use axum::extract::State;
use http::StatusCode;
use strata_api::rest::{
    ExpandRequest, NewDevice, NewPoolVolume, NewSnapshot, PoolVolumePatch, ReplaceRequest,
    ShrinkRequest,
};
use strata_storage::{NewSpare, StoragePool, VolumeRef};
use strata_types::{Error, Label, Role};

use super::answer::{self, accepted};
use super::extract::{Asker, Json, Parameters, PartOf, Thing};
use super::operations::begin;
use super::refusal::Answer;
use super::{RestState, json};
use crate::core::Page;
use crate::operations::{
    ExpandInput, ExpandStorage, ReplaceDevice, ReplaceInput, ScrubInput, ScrubStorage, ShrinkInput,
    ShrinkStorage,
};

async fn pool(state: &RestState) -> Answer<StoragePool> {
    Ok(state.estate.storage.pool().await?)
}

/// The pool, if it was ever made: looking at it makes nothing.
async fn looked_at(state: &RestState) -> Answer<Option<StoragePool>> {
    let existing = state.estate.storage.existing().await?;
    if existing.is_none() {
        state.estate.storage.unmade()?;
    }
    Ok(existing)
}

/// What the pool says, or why not.
fn told<T>(result: strata_storage::Result<T>) -> Answer<T> {
    Ok(result.map_err(Error::from)?)
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    // Who may only look makes nothing.
    if who.role == Role::Viewer && state.estate.storage.existing().await?.is_none() {
        return answer::json(&state.estate.storage.unmade()?);
    }
    answer::json(&told(pool(&state).await?.status().await)?)
}

/// Makes it larger, or tells how that would be done.
pub(super) async fn expand(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["dryRun"])?;
    let ExpandRequest { min_bytes } = json::parse(&body)?;
    let plan = told(pool(&state).await?.plan_expand(min_bytes).await)?;
    if parameters.flag("dryRun")? {
        return answer::json(&plan);
    }
    begin::<ExpandStorage>(&state, &who, &ExpandInput { min_bytes }).await
}

/// Makes it smaller, or tells how that would be done.
pub(super) async fn shrink(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["dryRun"])?;
    let ShrinkRequest { max_bytes } = json::parse(&body)?;
    // What cannot be is refused now, with the figures.
    let plan = told(pool(&state).await?.plan_shrink(max_bytes).await)?;
    if parameters.flag("dryRun")? {
        return answer::json(&plan);
    }
    begin::<ShrinkStorage>(&state, &who, &ShrinkInput { max_bytes }).await
}

pub(super) async fn scrub(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    pool(&state).await?;
    begin::<ScrubStorage>(&state, &who, &ScrubInput {}).await
}

/// Adds a spare.
pub(super) async fn add_device(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: NewDevice = json::parse(&body)?;
    let spare = match (asked.path.as_str(), asked.bytes) {
        ("", Some(bytes)) => NewSpare::File { bytes },
        ("", None) => return Err(Error::invalid("bytes", "says how large a file is to be").into()),
        (_, Some(_)) => {
            return Err(Error::invalid("bytes", "is for files; a device has its size").into());
        }
        (path, None) => NewSpare::Device {
            path: path.into(),
            overwrite: asked.overwrite,
        },
    };
    let added = told(pool(&state).await?.add_spare(spare).await)?;
    let mut response = answer::json(&added)?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Takes a spare away.
pub(super) async fn remove_device(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let pool = pool(&state).await?;
    known(&pool, &name).await?;
    told(pool.remove_spare(&name).await)?;
    Ok(accepted())
}

/// Refuses a device that the pool does not know.
async fn known(pool: &StoragePool, name: &str) -> Answer<()> {
    let status = told(pool.status().await)?;
    if status.devices.iter().any(|device| device.name == name) {
        return Ok(());
    }
    let name: String = name.chars().take(80).collect();
    let error = Error::not_found(format!("the pool has no device {name}"));
    Err(error
        .with_hint("see those it has: strata storage device list")
        .into())
}

pub(super) async fn replace_device(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(device): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let ReplaceRequest { with } = json::parse(&body)?;
    let pool = pool(&state).await?;
    known(&pool, &device).await?;
    if !with.is_empty() {
        known(&pool, &with).await?;
    }
    begin::<ReplaceDevice>(&state, &who, &ReplaceInput { device, with }).await
}

pub(super) async fn volumes(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset"])?;
    let (limit, offset) = parameters.piece()?;
    let all = match looked_at(&state).await? {
        Some(pool) => told(pool.volumes().await)?,
        None => Vec::new(),
    };
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

pub(super) async fn create_volume(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let new: NewPoolVolume = json::parse(&body)?;
    let name = Label::from_field("name", &new.name)?;
    let from = match new.from.as_str() {
        "" => None,
        from => Some(from.parse::<VolumeRef>()?),
    };
    let pool = pool(&state).await?;
    let is_new = pool.volume(&name).await.is_err();
    let made = pool.create_volume(&name, new.kind, new.quota_bytes, from);
    let mut response = answer::json(&told(made.await)?)?;
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

fn volume_name(text: &str) -> Answer<Label> {
    let missing = |_| {
        let text: String = text.chars().take(80).collect();
        Error::not_found(format!("there is no volume {text}"))
    };
    Ok(text.parse().map_err(missing)?)
}

fn snapshot_name(text: &str) -> Answer<Label> {
    let missing = |_| {
        let text: String = text.chars().take(80).collect();
        Error::not_found(format!("there is no snapshot {text}"))
    };
    Ok(text.parse().map_err(missing)?)
}

pub(super) async fn show_volume(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let name = volume_name(&name)?;
    match looked_at(&state).await? {
        Some(pool) => answer::json(&told(pool.volume(&name).await)?),
        None => Err(Error::not_found(format!("there is no volume {name}")).into()),
    }
}

pub(super) async fn update_volume(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let name = volume_name(&name)?;
    let patch: PoolVolumePatch = json::parse(&body)?;
    let pool = pool(&state).await?;
    let changed = match patch.quota_bytes {
        None => pool.volume(&name).await,
        Some(bytes) => {
            pool.resize_volume(&name, Some(bytes).filter(|it| *it > 0))
                .await
        }
    };
    answer::json(&told(changed)?)
}

pub(super) async fn remove_volume(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let name = volume_name(&name)?;
    state.core.nobody_uses_pool_volume(name.as_str())?;
    let pool = pool(&state).await?;
    told(pool.volume(&name).await)?;
    told(pool.remove_volume(&name).await)?;
    Ok(accepted())
}

pub(super) async fn snapshot_volume(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let new: NewSnapshot = json::parse(&body)?;
    let (name, snapshot) = (volume_name(&name)?, Label::from_field("name", &new.name)?);
    let taken = pool(&state).await?.snapshot_volume(&name, &snapshot).await;
    answer::json(&told(taken)?)
}

pub(super) async fn remove_snapshot(
    State(state): State<RestState>,
    Asker(_): Asker,
    PartOf(name, snapshot): PartOf,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let (name, snapshot) = (volume_name(&name)?, snapshot_name(&snapshot)?);
    let pool = pool(&state).await?;
    let volume = told(pool.volume(&name).await)?;
    let mut snapshots = volume.snapshots.iter();
    if !snapshots.any(|one| one.name == snapshot.as_str()) {
        let error = Error::not_found(format!("volume {name} has no snapshot {snapshot}"));
        return Err(error.into());
    }
    told(pool.remove_snapshot(&name, &snapshot).await)?;
    Ok(accepted())
}
