//! `/workload/`.

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value, json};
use strata_api::rest;
use strata_identity::policy::{OPERATE, READ};
use strata_types::instance::{InstanceKind, WorkloadId};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, ResourceId};
use super::instances::in_project;
use super::json::{self, take_text};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::watch::{self, Selection};
use super::{RestState, patch, view};
use crate::core::{Core, Effect, NewWorkload, Principal, Workload, expect_effect, keys};

pub(super) fn routes() -> Noun {
    Noun::new("workload", "Templates of instances.")
        .id("ID, name, or `PROJECT/NAME` with the slash encoded as `%2F`.")
        .in_projects()
        .routes([
            route::get("/workload", READ, list)
                .named("listWorkloads", "List workloads")
                .about("Workloads of all projects the caller may see, ordered by ID.")
                .parameters(&["type", "project"])
                .returns_watchable_list::<rest::Workload>(),
            route::put("/workload", OPERATE, create)
                .named("createWorkload", "Create a workload")
                .about("A workload is a template of instances.")
                .parameters(&["new project"])
                .body::<rest::NewWorkload>()
                .example(super::instances::web_example())
                .creates::<rest::Workload>(),
            route::get("/workload/{id}", READ, show)
                .named("getWorkload", "Get a workload")
                .about("Specification and observed state of one workload.")
                .parameters(&["project"])
                .returns_versioned::<rest::Workload>(),
            route::patch("/workload/{id}", OPERATE, update)
                .named("updateWorkload", "Update a workload")
                .about(
                    "Fields that are left out keep their value; `null` resets a field to its \
                    default.",
                )
                .parameters(&["project"])
                .body::<rest::WorkloadPatch>()
                .example(json!({ "resources": { "memory": 256 } }))
                .updates::<rest::Workload>(),
            route::delete("/workload/{id}", OPERATE, delete)
                .named("deleteWorkload", "Delete a workload")
                .about("With `cascade`, its instances are deleted too.")
                .parameters(&["project", "cascade"])
                .deletes_versioned(),
        ])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "type", "project", "watch"])?;
    let project = parameters.label("project")?;
    let kind = parameters.one_of("type", &InstanceKind::ALL, InstanceKind::as_str)?;
    let (limit, offset) = parameters.pagination()?;
    let core = &state.core;
    if parameters.flag("watch")? {
        let selection = watched(core, principal.clone(), project, kind);
        let answer = watch::follow(&state, selection);
        return Ok(view::with_values(&principal, answer));
    }
    let page = core
        .workloads()
        .list(&principal, project.as_ref(), kind, offset, limit);
    let secrets = view::sees_secrets(&principal);
    let items = page.items.iter();
    let items = items.map(|one| view::workload(core, secrets, one));
    let answer = answer::list(page.total, items)?;
    Ok(view::with_values(&principal, answer))
}

async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let new = new(parameters.label("project")?, json::parse(&body)?)?;
    let (made, is_new) = state.core.workloads().create(&principal, new).await?;
    let told = view::workload(&state.core, view::sees_secrets(&principal), &made);
    let location = format!("/workload/{}", made.id);
    answer::made(is_new, &location, made.revision, &told)
}

fn new(project: Option<Label>, mut object: Map<String, Value>) -> Result<NewWorkload> {
    let id = take_text(&mut object, "id")?.filter(|id| !id.is_empty());
    let name = take_text(&mut object, "name")?;
    let given = take_text(&mut object, "project")?;
    let name = name.ok_or_else(|| Error::invalid("name", "must be given"))?;
    Ok(NewWorkload {
        id: id.map(|id| WorkloadId::from_field("id", &id)).transpose()?,
        name: Label::from_field("name", &name)?,
        project: in_project(project, given)?,
        spec: json::spec(object)?,
    })
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["project", "watch"])?;
    let project = parameters.label("project")?;
    let found = state
        .core
        .workloads()
        .find(&principal, project.as_ref(), &thing)?;
    if parameters.flag("watch")? {
        let selection = watched(&state.core, principal.clone(), None, None);
        let answer = watch::follow(&state, selection.only(found.id.clone()));
        return Ok(view::with_values(&principal, answer));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = view::workload(&state.core, view::sees_secrets(&principal), &found);
    let answer = answer::one(StatusCode::OK, found.revision, &told)?;
    Ok(match found.spec.has_values() {
        true => view::with_values(&principal, answer),
        false => answer,
    })
}

async fn update(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let found = state
        .core
        .workloads()
        .find(&principal, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    let core = &state.core;
    let shown = patch::shown(&view::workload(
        core,
        view::sees_secrets(&principal),
        &found,
    ))?;
    let (name, spec) = patch::workload(&found.spec, &shown, json::parse(&body)?)?;
    expect_effect(Effect::updates(keys::workload(&found.id)));
    let changed = core
        .workloads()
        .update(&principal, &found.id, name, spec, precondition);
    let changed = changed.await.map_err(|error| conditions.reject(error))?;
    let told = view::workload(core, view::sees_secrets(&principal), &changed);
    answer::one(StatusCode::OK, changed.revision, &told)
}

async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["project", "cascade"])?;
    let project = parameters.label("project")?;
    let cascade = parameters.flag("cascade")?;
    let found = state
        .core
        .workloads()
        .find(&principal, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    expect_effect(Effect::deletes(keys::workload(&found.id)));
    let core = &state.core;
    let gone = core
        .workloads()
        .delete(&principal, &found.id, cascade, precondition);
    gone.await.map_err(|error| conditions.reject(error))?;
    Ok(accepted())
}

/// The workloads that a caller watches.
fn watched(
    core: &Core,
    principal: Principal,
    project: Option<Label>,
    kind: Option<InstanceKind>,
) -> Selection<Workload> {
    let (secrets, shown) = (view::sees_secrets(&principal), core.clone());
    let accepts = move |one: &Workload| {
        principal.sees(&one.project)
            && project
                .as_ref()
                .is_none_or(|project| *project == one.project)
            && kind.is_none_or(|kind| kind == one.spec.kind)
    };
    Selection::of(core, accepts, move |one| {
        answer::text(&view::workload(&shown, secrets, one))
    })
}
