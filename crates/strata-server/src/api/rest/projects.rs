//! `/project/`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value, json};
use strata_api::rest::{self, NewProject};
use strata_identity::policy::{ADMIN, READ};
use strata_types::{Error, Label, Result};

use super::RestState;
use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, ResourceId};
use super::json;
use super::patch::merge;
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::watch::{self, Selection};
use crate::core::{
    Core, Effect, Page, Principal, Project, ProjectSettings, ProjectView, Versioned, expect_effect,
    keys,
};

pub(super) fn routes() -> Noun {
    Noun::new("project", "Projects and their quotas.")
        .id("Name.")
        .routes([
            route::get("/project", READ, list)
                .named("listProjects", "List projects")
                .about("All projects the caller may see, ordered by name.")
                .returns_watchable_list::<rest::Project>()
                .in_projects(),
            route::put("/project", ADMIN, create)
                .named("createProject", "Create a project")
                .about("A project groups instances and limits what they may use together.")
                .body::<NewProject>()
                .example(json!({ "name": "team", "quota": { "cpu": 64000, "instances": 100 } }))
                .creates::<rest::Project>(),
            route::get("/project/{id}", READ, show)
                .named("getProject", "Get a project")
                .about("Quota and usage of one project.")
                .returns_versioned::<rest::Project>()
                .in_projects(),
            route::patch("/project/{id}", ADMIN, update)
                .named("updateProject", "Update the quota of a project")
                .about("Fields that are left out keep their value; `null` removes a limit.")
                .body::<rest::ProjectPatch>()
                .example(json!({ "quota": { "cpu": null, "instances": 200 } }))
                .updates::<rest::Project>(),
            route::delete("/project/{id}", ADMIN, delete)
                .named("deleteProject", "Delete a project")
                .about("Only an empty project can be deleted.")
                .deletes_versioned(),
        ])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.pagination()?;
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, watched(&state.core, principal)));
    }
    let page = Page::of(
        state.core.projects().list(&principal).into_iter(),
        offset,
        limit,
    );
    answer::list(page.total, page.items.iter().map(render))
}

async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let new: NewProject = json::parse(&body)?;
    let name = Label::from_field("name", &new.name)?;
    let projects = state.core.projects();
    let is_new = projects.record(&name).is_err();
    let made = projects.create(&principal, &name, settings(&new)?).await?;
    let revision = projects.record(&name)?.revision;
    answer::made(
        is_new,
        &format!("/project/{name}"),
        revision,
        &render(&made),
    )
}

/// A project that the caller may know of.
fn find(
    core: &Core,
    principal: &Principal,
    text: &str,
) -> Result<(Label, Arc<Versioned<Project>>)> {
    let name = Label::from_field("id", text).ok();
    let name = name.filter(|name| principal.sees(name)).ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        Error::not_found(format!("there is no project {text}"))
            .with_hint("list them: strata project list")
    })?;
    let found = core.projects().record(&name)?;
    Ok((name, found))
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["watch"])?;
    let (name, found) = find(&state.core, &principal, &name)?;
    if parameters.flag("watch")? {
        let selection = watched(&state.core, principal).only(name);
        return Ok(watch::follow(&state, selection));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = render(&state.core.projects().get(&name)?);
    answer::one(StatusCode::OK, found.revision, &told)
}

async fn update(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let (name, found) = find(&state.core, &principal, &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let settings = patched(&found.settings, json::parse(&body)?)?;
    expect_effect(Effect::updates(keys::project(&name)));
    let projects = state.core.projects();
    let changed = projects
        .update(&principal, &name, settings, precondition)
        .await;
    let changed = changed.map_err(|error| conditions.reject(error))?;
    let revision = projects.record(&name)?.revision;
    answer::one(StatusCode::OK, revision, &render(&changed))
}

/// What can be changed.
const CHANGEABLE: [&str; 4] = ["quota", "defaults", "allowFrom", "privilegedPorts"];

/// The settings that a patch requests.
fn patched(now: &ProjectSettings, patch: Map<String, Value>) -> Result<ProjectSettings> {
    let unknown = patch.keys().find(|key| !CHANGEABLE.contains(&key.as_str()));
    if let Some(field) = unknown {
        let field: String = field.chars().take(80).collect();
        let why = match field.as_str() {
            "name" | "used" | "createdAt" => "cannot be changed".to_owned(),
            _ => format!("is unknown; there are {}", CHANGEABLE.join(", ")),
        };
        return Err(Error::invalid(field, why));
    }
    let mut whole = serde_json::json!(now);
    merge(&mut whole, Value::Object(patch));
    match whole {
        Value::Object(whole) => json::from_object(whole),
        _ => Err(Error::internal(
            "the settings of a project are not an object",
        )),
    }
}

async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let (name, found) = find(&state.core, &principal, &name)?;
    let precondition = conditions.to_change(found.revision)?;
    expect_effect(Effect::deletes(keys::project(&name)));
    let projects = state.core.projects();
    let gone = projects.delete(&principal, &name, precondition);
    gone.await.map_err(|error| conditions.reject(error))?;
    Ok(accepted())
}

fn settings(new: &NewProject) -> Result<ProjectSettings> {
    let from = new.allow_from.iter().enumerate();
    let from = from.map(|(i, name)| Label::from_field(&format!("allowFrom[{i}]"), name));
    Ok(ProjectSettings {
        quota: new.quota,
        defaults: new.defaults,
        allow_from: from.collect::<Result<_>>()?,
        privileged_ports: new.privileged_ports,
    })
}

fn render(view: &ProjectView) -> rest::Project {
    let settings = &view.project.settings;
    rest::Project {
        name: view.project.name.to_string(),
        quota: settings.quota,
        defaults: settings.defaults,
        allow_from: settings.allow_from.iter().map(Label::to_string).collect(),
        privileged_ports: settings.privileged_ports,
        used: view.used,
        created_at: timestamp(view.project.created_at_ms),
    }
}

/// The projects that a caller watches.
fn watched(core: &Core, principal: Principal) -> Selection<Project> {
    let shown = core.clone();
    let accepts = move |one: &Project| principal.sees(&one.name);
    Selection::of(core, accepts, move |one| {
        let view = shown
            .projects()
            .get(&one.name)
            .unwrap_or_else(|_| ProjectView {
                project: one.record.clone(),
                used: rest::ProjectUse::default(),
            });
        answer::text(&render(&view))
    })
}
