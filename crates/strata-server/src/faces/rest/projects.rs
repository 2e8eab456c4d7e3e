//! `/project/`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value};
use strata_api::rest::{self, NewProject};
use strata_store::Revision;
use strata_types::{Error, Label, Result};

use super::RestState;
use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Thing};
use super::json;
use super::patch::merge;
use super::refusal::Answer;
use super::view::moment;
use super::watch::{self, Watched, following};
use crate::core::{
    Changed, Core, Defaults, Kept, Page, Project, ProjectSettings, ProjectView, Quota, Turn, Who,
};

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.piece()?;
    if parameters.flag("watch")? {
        let core = state.core.clone();
        let only = None;
        return Ok(watch::follow(&state, Those { core, who, only }));
    }
    let page = Page::of(state.core.projects(&who).into_iter(), offset, limit);
    answer::list(page.total, page.items.iter().map(tell))
}

pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let new: NewProject = json::parse(&body)?;
    let name = Label::from_field("name", &new.name)?;
    let core = &state.core;
    let is_new = core.project_record(&name).is_err();
    let made = core.create_project(&who, &name, settings(&new)?).await?;
    let revision = core.project_record(&name)?.revision;
    answer::made(is_new, &format!("/project/{name}"), revision, &tell(&made))
}

/// A project that the caller may know of.
fn find(core: &Core, who: &Who, text: &str) -> Result<(Label, Arc<Kept<Project>>)> {
    let name = Label::from_field("id", text).ok();
    let name = name.filter(|name| who.sees(name)).ok_or_else(|| {
        let text: String = text.chars().take(80).collect();
        Error::not_found(format!("there is no project {text}"))
            .with_hint("see those there are: strata project list")
    })?;
    let found = core.project_record(&name)?;
    Ok((name, found))
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["watch"])?;
    let (name, found) = find(&state.core, &who, &name)?;
    if parameters.flag("watch")? {
        let core = state.core.clone();
        let only = Some(name);
        return Ok(watch::follow(&state, Those { core, who, only }));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = tell(&state.core.project(&name)?);
    answer::one(StatusCode::OK, found.revision, &told)
}

pub(super) async fn update(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let (name, found) = find(&state.core, &who, &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let settings = patched(&found.settings, json::parse(&body)?)?;
    let core = &state.core;
    let changed = core.set_project(&who, &name, settings, precondition).await;
    let changed = changed.map_err(|error| conditions.judge(error))?;
    let revision = core.project_record(&name)?.revision;
    answer::one(StatusCode::OK, revision, &tell(&changed))
}

/// What can be changed.
const CHANGEABLE: [&str; 4] = ["quota", "defaults", "allowFrom", "privilegedPorts"];

/// The settings that a patch asks for.
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
        _ => Err(Error::internal("the settings of a project are no object")),
    }
}

pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&[])?;
    let (name, found) = find(&state.core, &who, &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let gone = state.core.delete_project(&who, &name, precondition);
    gone.await.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

fn settings(new: &NewProject) -> Result<ProjectSettings> {
    let (quota, defaults) = (new.quota, new.defaults);
    let from = new.allow_from.iter().enumerate();
    let from = from.map(|(i, name)| Label::from_field(&format!("allowFrom[{i}]"), name));
    Ok(ProjectSettings {
        quota: Quota {
            cpu: quota.cpu,
            memory: quota.memory,
            disk: quota.disk,
            pids: quota.pids,
            instances: quota.instances,
        },
        defaults: Defaults {
            cpu: defaults.cpu,
            memory: defaults.memory,
            disk: defaults.disk,
            pids: defaults.pids,
        },
        allow_from: from.collect::<Result<_>>()?,
        privileged_ports: new.privileged_ports,
    })
}

fn tell(view: &ProjectView) -> rest::Project {
    let (settings, used) = (&view.project.settings, view.used);
    let (quota, defaults) = (settings.quota, settings.defaults);
    rest::Project {
        name: view.project.name.to_string(),
        quota: rest::Quota {
            cpu: quota.cpu,
            memory: quota.memory,
            disk: quota.disk,
            pids: quota.pids,
            instances: quota.instances,
        },
        defaults: rest::ProjectDefaults {
            cpu: defaults.cpu,
            memory: defaults.memory,
            disk: defaults.disk,
            pids: defaults.pids,
        },
        allow_from: settings.allow_from.iter().map(Label::to_string).collect(),
        privileged_ports: settings.privileged_ports,
        used: rest::ProjectUse {
            cpu: used.cpu,
            memory: used.memory,
            disk: used.disk,
            pids: used.pids,
            instances: used.instances,
        },
        created_at: moment(view.project.created_at_ms),
    }
}

/// Projects that are followed.
struct Those {
    core: Core,
    who: Who,
    only: Option<Label>,
}

impl Watched for Those {
    type Record = Project;

    fn turn(changed: Changed) -> Option<Turn<Project>> {
        match changed {
            Changed::Project(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Project) -> bool {
        let only = self.only.as_ref().is_none_or(|only| *only == one.name);
        only && self.who.sees(&one.name)
    }

    fn page(&self, after: Option<&Project>, limit: usize) -> Vec<Arc<Kept<Project>>> {
        let tables = self.core.tables();
        let accepted = |one: &&Arc<Kept<Project>>| self.accepts(one);
        let rest = following(&tables.projects, after.map(|one| &one.name));
        rest.filter(accepted).take(limit).cloned().collect()
    }

    fn revision(&self, one: &Project) -> Option<Revision> {
        let tables = self.core.tables();
        tables.projects.get(&one.name).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Project>) -> Vec<u8> {
        let view = self.core.project(&kept.name).unwrap_or(ProjectView {
            project: kept.record.clone(),
            used: crate::core::ProjectUse::default(),
        });
        answer::text(&tell(&view)).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
