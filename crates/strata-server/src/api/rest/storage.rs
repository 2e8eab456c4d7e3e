//! `/storage`: the pool, its devices, its volumes.

use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use strata_api::rest::{
    self, ExpandRequest, NewDevice, NewPoolVolume, NewSnapshot, PoolVolumePatch, ReplaceRequest,
    ShrinkRequest,
};
use strata_identity::policy::{ADMIN, OPERATE, READ};
use strata_types::Role;
use strata_workflow::Kind as _;

use super::answer::{self, accepted};
use super::extract::{Auth, Json, Parameters, ResourceId, SubresourceId};
use super::operations::begin;
use super::rejection::Answer;
use super::route::{self, Noun, Route};
use super::{RestState, json};
use crate::core::Page;
use crate::operations::{
    ExpandInput, ExpandStorage, ReplaceDevice, ReplaceInput, ScrubInput, ScrubStorage, ShrinkInput,
    ShrinkStorage,
};

pub(super) fn routes() -> Noun {
    Noun::new("storage", "The storage pool: devices, volumes, snapshots.")
        .id("Name of the volume.")
        .routes(pool_routes())
        .routes(device_routes())
        .routes(volume_routes())
}

/// The routes of the pool as a whole.
fn pool_routes() -> [Route; 4] {
    [
        route::get("/storage", READ, show)
            .named("getStorage", "Get the storage pool")
            .about("Size, usage, devices and health of the storage pool.")
            .returns::<rest::Pool>()
            .may_be_unavailable(),
        route::post("/storage/expand", ADMIN, expand)
            .named("expandStorage", "Expand the storage pool")
            .about(
                "Starts an operation that adds spares until the pool has grown by at least \
                    the requested size. With `dryRun`, only returns the plan.",
            )
            .body::<ExpandRequest>()
            .returns_plan::<rest::ExpandPlan>()
            .starts(ExpandStorage::NAME)
            .may_be_unavailable(),
        route::post("/storage/shrink", ADMIN, shrink)
            .named("shrinkStorage", "Shrink the storage pool")
            .about(
                "Starts an operation that removes devices until the pool has shrunk by at \
                    most the requested size. With `dryRun`, only returns the plan.",
            )
            .body::<ShrinkRequest>()
            .returns_plan::<rest::ShrinkPlan>()
            .starts(ShrinkStorage::NAME)
            .may_be_unavailable(),
        route::post("/storage/scrub", OPERATE, scrub)
            .named("scrubStorage", "Scrub the storage pool")
            .about("Starts an operation that reads all data and repairs what can be repaired.")
            .starts(ScrubStorage::NAME),
    ]
}

/// The routes of its devices.
fn device_routes() -> [Route; 3] {
    [
        route::put("/storage/device", ADMIN, add_device)
            .named("addStorageDevice", "Add a spare device")
            .about(
                "The device is registered as a spare and used when the pool is expanded or \
                    a device is replaced.",
            )
            .body::<NewDevice>()
            .example(json!({ "bytes": 10_000_000_000_u64 }))
            .returns_created::<rest::PoolDevice>()
            .may_be_unavailable(),
        route::delete("/storage/device/{id}", ADMIN, remove_device)
            .named("removeStorageDevice", "Remove a spare device")
            .about("Only a device that is not part of the pool can be removed.")
            .id("Name of the device.")
            .deletes(),
        route::post("/storage/device/{id}/replace", ADMIN, replace_device)
            .named("replaceStorageDevice", "Replace a device")
            .about(
                "Starts an operation that replaces a failing or missing device with a \
                    spare.",
            )
            .id("Name of the device.")
            .body::<ReplaceRequest>()
            .starts(ReplaceDevice::NAME)
            .may_be_unavailable(),
    ]
}

/// The routes of its volumes.
fn volume_routes() -> [Route; 7] {
    [
        route::get("/storage/volume", READ, volumes)
            .named("listVolumes", "List volumes")
            .about("The volumes of the storage pool, ordered by name.")
            .returns_pages::<rest::PoolVolume>()
            .may_be_unavailable(),
        route::put("/storage/volume", OPERATE, create_volume)
            .named("createVolume", "Create a volume")
            .about("Creates an empty volume, or a copy of another volume or snapshot.")
            .body::<NewPoolVolume>()
            .example(json!({ "name": "data", "quotaBytes": 1_000_000_000 }))
            .returns_created::<rest::PoolVolume>()
            .returns_existing::<rest::PoolVolume>()
            .may_be_unavailable(),
        route::get("/storage/volume/{id}", READ, show_volume)
            .named("getVolume", "Get a volume")
            .about("Quota, usage and snapshots of one volume.")
            .returns::<rest::PoolVolume>()
            .may_be_unavailable(),
        route::patch("/storage/volume/{id}", OPERATE, update_volume)
            .named("updateVolume", "Resize a volume")
            .about("Sets the quota of the volume.")
            .body::<PoolVolumePatch>()
            .returns::<rest::PoolVolume>()
            .may_be_unavailable(),
        route::delete("/storage/volume/{id}", OPERATE, remove_volume)
            .named("removeVolume", "Delete a volume")
            .about("Deletes the volume with its snapshots. A volume in use cannot be deleted.")
            .deletes(),
        route::put("/storage/volume/{id}/snapshot", OPERATE, snapshot_volume)
            .named("snapshotVolume", "Create a snapshot of a volume")
            .about("Keeps the present contents of the volume under a name.")
            .body::<NewSnapshot>()
            .returns::<rest::PoolVolume>()
            .may_be_unavailable(),
        route::delete(
            "/storage/volume/{id}/snapshot/{snapshot}",
            OPERATE,
            remove_snapshot,
        )
        .named("removeSnapshot", "Delete a snapshot of a volume")
        .about("The volume itself is not changed.")
        .part("snapshot", "Name of the snapshot.")
        .deletes(),
    ]
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    // A principal that may only read creates nothing.
    let may_create = principal.role != Role::Viewer;
    answer::json(&state.backends.storage.status(may_create).await?)
}

/// Makes it larger, or reports how that would be done.
async fn expand(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["dryRun"])?;
    let ExpandRequest { min_bytes } = json::parse(&body)?;
    let input = ExpandInput { min_bytes };
    let plan = state.backends.storage.plan_expand(&input).await?;
    if parameters.flag("dryRun")? {
        return answer::json(&plan);
    }
    begin::<ExpandStorage>(&state, &principal, &input).await
}

/// Makes it smaller, or reports how that would be done.
async fn shrink(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["dryRun"])?;
    let ShrinkRequest { max_bytes } = json::parse(&body)?;
    let input = ShrinkInput { max_bytes };
    // What cannot be is refused now, with the figures.
    let plan = state.backends.storage.plan_shrink(&input).await?;
    if parameters.flag("dryRun")? {
        return answer::json(&plan);
    }
    begin::<ShrinkStorage>(&state, &principal, &input).await
}

async fn scrub(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    state.backends.storage.pool().await?;
    begin::<ScrubStorage>(&state, &principal, &ScrubInput {}).await
}

/// Adds a spare.
async fn add_device(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: NewDevice = json::parse(&body)?;
    let storage = &state.backends.storage;
    let added = storage.add_spare(&asked.path, asked.bytes, asked.overwrite);
    let mut response = answer::json(&added.await?)?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Takes a spare away.
async fn remove_device(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    state.backends.storage.remove_spare(&name).await?;
    Ok(accepted())
}

async fn replace_device(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(device): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let ReplaceRequest { with } = json::parse(&body)?;
    let input = ReplaceInput { device, with };
    state.backends.storage.check_replace(&input).await?;
    begin::<ReplaceDevice>(&state, &principal, &input).await
}

async fn volumes(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    let (limit, offset) = parameters.pagination()?;
    let all = state.backends.storage.volumes().await?;
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

async fn create_volume(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let new: NewPoolVolume = json::parse(&body)?;
    let storage = &state.backends.storage;
    let made = storage.create_volume(&new.name, new.kind, new.quota_bytes, &new.from);
    let (volume, is_new) = made.await?;
    let mut response = answer::json(&volume)?;
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

async fn show_volume(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    answer::json(&state.backends.storage.volume(&name).await?)
}

async fn update_volume(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let patch: PoolVolumePatch = json::parse(&body)?;
    let storage = &state.backends.storage;
    answer::json(&storage.resize_volume(&name, patch.quota_bytes).await?)
}

async fn remove_volume(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let storage = &state.backends.storage;
    storage.remove_volume(&state.core, &name).await?;
    Ok(accepted())
}

async fn snapshot_volume(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let new: NewSnapshot = json::parse(&body)?;
    let storage = &state.backends.storage;
    answer::json(&storage.snapshot_volume(&name, &new.name).await?)
}

async fn remove_snapshot(
    State(state): State<RestState>,
    Auth(_): Auth,
    SubresourceId(name, snapshot): SubresourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let storage = &state.backends.storage;
    storage.remove_snapshot(&name, &snapshot).await?;
    Ok(accepted())
}
