//! `/backup/` and `/backup-schedule/`.

use axum::extract::State;
use serde_json::json;
use strata_api::rest::{
    self, BackupSchedule, NewBackup, PruneRequest, RestoreRequest, VerifyRequest,
};
use strata_identity::policy::{ADMIN, OPERATE, READ};
use strata_workflow::Kind as _;

use super::answer::{self, accepted};
use super::extract::{Auth, Json, Parameters, ResourceId};
use super::operations::begin;
use super::rejection::Answer;
use super::route::{self, Noun};
use super::{RestState, json};
use crate::core::{Effect, Page, expect_effect, keys};
use crate::operations::{BackupInput, CreateBackup, PruneBackups, RestoreBackup, VerifyBackup};

pub(super) fn routes() -> Noun {
    Noun::new("backup", "Backups and their schedules.")
        .id("ID of the backup, a unique prefix of it, or `latest`.")
        .routes([
            route::get("/backup", READ, list)
                .named("listBackups", "List backups")
                .about("The backups in the configured repository, oldest first.")
                .returns_pages::<rest::Backup>()
                .may_be_unavailable(),
            route::post("/backup", OPERATE, create)
                .named("createBackup", "Create a backup")
                .about(
                    "Starts an operation that snapshots the volumes, uploads them and verifies \
                    the result.",
                )
                .body::<NewBackup>()
                .starts(CreateBackup::NAME),
            route::post("/backup/prune", ADMIN, prune)
                .named("pruneBackups", "Delete backups by retention rules")
                .about(
                    "Starts an operation that deletes the backups no rule keeps. With `dryRun`, \
                    only lists them.",
                )
                .body::<PruneRequest>()
                .example(json!({ "keep": { "last": 7 } }))
                .returns_plan::<rest::PrunePlan>()
                .starts(PruneBackups::NAME),
            route::get("/backup/{id}", READ, show)
                .named("getBackup", "Get a backup")
                .about("Time, size and volumes of one backup.")
                .returns::<rest::Backup>()
                .may_be_unavailable(),
            route::post("/backup/{id}/restore", ADMIN, restore)
                .named("restoreBackup", "Restore volumes or a file from a backup")
                .about("Starts an operation that restores whole volumes, or a single file of one.")
                .body::<RestoreRequest>()
                .example(json!({ "volume": "data", "as": "data-2" }))
                .starts(RestoreBackup::NAME),
            route::post("/backup/{id}/verify", OPERATE, verify)
                .named("verifyBackup", "Verify a backup")
                .about("Starts an operation that checks whether the backup can be restored.")
                .body::<VerifyRequest>()
                .starts(VerifyBackup::NAME),
            route::get("/backup-schedule", READ, schedules)
                .named("listBackupSchedules", "List backup schedules")
                .about("All schedules, ordered by name.")
                .returns_pages::<BackupSchedule>(),
            route::put("/backup-schedule", ADMIN, put_schedule)
                .named("putBackupSchedule", "Create or replace a backup schedule")
                .about("A schedule with the same name is replaced.")
                .body::<BackupSchedule>()
                .example(json!({ "name": "nightly", "when": "30 2 * * *",
                "keep": { "daily": 7, "weekly": 4 } }))
                .returns::<BackupSchedule>(),
            route::get("/backup-schedule/{id}", READ, show_schedule)
                .named("getBackupSchedule", "Get a backup schedule")
                .about("The cron expression and retention rules of one schedule.")
                .id("Name of the schedule.")
                .returns::<BackupSchedule>(),
            route::delete("/backup-schedule/{id}", ADMIN, remove_schedule)
                .named("removeBackupSchedule", "Delete a backup schedule")
                .about("Backups made by the schedule are kept.")
                .id("Name of the schedule.")
                .deletes(),
        ])
}

async fn list(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    let (limit, offset) = parameters.pagination()?;
    let all = state.backends.backups.list().await?;
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: NewBackup = json::parse(&body)?;
    let input = state.backends.backups.check_create(BackupInput {
        bytes_per_second: asked.bytes_per_second,
        skip_verify: asked.skip_verify,
        repair: asked.repair,
        keep: None,
    })?;
    begin::<CreateBackup>(&state, &principal, &input).await
}

async fn show(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    answer::json(&state.backends.backups.get(&id).await?)
}

async fn restore(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let what: RestoreRequest = json::parse(&body)?;
    let backups = &state.backends.backups;
    let input = backups.check_restore(&state.core, &id, what).await?;
    begin::<RestoreBackup>(&state, &principal, &input).await
}

async fn verify(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: VerifyRequest = json::parse(&body)?;
    let backups = &state.backends.backups;
    let input = backups.check_verify(&id, asked.percent).await?;
    begin::<VerifyBackup>(&state, &principal, &input).await
}

/// Removes what no rule keeps, or reports what that would be.
async fn prune(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["dryRun"])?;
    let asked: PruneRequest = json::parse(&body)?;
    let backups = &state.backends.backups;
    let input = backups.check_prune(asked.keep)?;
    if parameters.flag("dryRun")? {
        return answer::json(&backups.plan_prune(&input).await?);
    }
    begin::<PruneBackups>(&state, &principal, &input).await
}

async fn schedules(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    let (limit, offset) = parameters.pagination()?;
    let page = Page::of(
        state.core.schedules().list().await?.into_iter(),
        offset,
        limit,
    );
    answer::list(page.total, page.items.into_iter())
}

async fn put_schedule(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let new: BackupSchedule = json::parse(&body)?;
    if let Ok(name) = new.name.parse() {
        expect_effect(Effect::updates(keys::schedule(&name)));
    }
    answer::json(&state.core.schedules().put(&principal, new).await?)
}

async fn show_schedule(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    answer::json(&state.core.schedules().get(&name).await?)
}

async fn remove_schedule(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    if let Ok(name) = name.parse() {
        expect_effect(Effect::deletes(keys::schedule(&name)));
    }
    state.core.schedules().delete(&principal, &name).await?;
    Ok(accepted())
}
