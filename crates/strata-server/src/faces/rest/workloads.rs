//! `/workload/`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value};
use strata_store::Revision;
use strata_types::instance::{InstanceKind, WorkloadId};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Thing};
use super::instances::in_project;
use super::json::{self, take_text};
use super::refusal::Answer;
use super::watch::{self, Watched, following};
use super::{RestState, patch, view};
use crate::core::{Changed, Core, Kept, NewWorkload, Turn, Who, Workload};

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "type", "project", "watch"])?;
    let project = parameters.label("project")?;
    let kind = parameters.one_of("type", &InstanceKind::ALL, InstanceKind::as_str)?;
    let (limit, offset) = parameters.piece()?;
    let core = &state.core;
    if parameters.flag("watch")? {
        let mut those = Those::new(core, who);
        (those.project, those.kind) = (project, kind);
        return Ok(watch::follow(&state, those));
    }
    let page = core.workloads(&who, project.as_ref(), kind, offset, limit);
    let secrets = view::sees_secrets(&who);
    let items = page.items.iter();
    let items = items.map(|one| view::workload(core, secrets, one));
    answer::list(page.total, items)
}

pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["project"])?;
    let new = new(parameters.label("project")?, json::parse(&body)?)?;
    let (made, is_new) = state.core.create_workload(&who, new).await?;
    let told = view::workload(&state.core, view::sees_secrets(&who), &made);
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

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(thing): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["project", "watch"])?;
    let project = parameters.label("project")?;
    let found = state.core.workload(&who, project.as_ref(), &thing)?;
    if parameters.flag("watch")? {
        let mut one = Those::new(&state.core, who);
        one.only = Some(found.id.clone());
        return Ok(watch::follow(&state, one));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = view::workload(&state.core, view::sees_secrets(&who), &found);
    answer::one(StatusCode::OK, found.revision, &told)
}

pub(super) async fn update(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(thing): Thing,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.only(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.workload(&who, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    let core = &state.core;
    let shown = patch::shown(&view::workload(core, view::sees_secrets(&who), &found))?;
    let (name, spec) = patch::workload(&found.spec, &shown, json::parse(&body)?)?;
    let changed = core.update_workload(&who, &found.id, name, spec, precondition);
    let changed = changed.await.map_err(|error| conditions.judge(error))?;
    let told = view::workload(core, view::sees_secrets(&who), &changed);
    answer::one(StatusCode::OK, changed.revision, &told)
}

pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(thing): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["project", "cascade"])?;
    let project = parameters.label("project")?;
    let cascade = parameters.flag("cascade")?;
    let found = state.core.workload(&who, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    let core = &state.core;
    let gone = core.delete_workload(&who, &found.id, cascade, precondition);
    gone.await.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

/// Workloads that are followed.
struct Those {
    core: Core,
    who: Who,
    project: Option<Label>,
    kind: Option<InstanceKind>,
    only: Option<WorkloadId>,
}

impl Those {
    fn new(core: &Core, who: Who) -> Self {
        Self {
            core: core.clone(),
            who,
            project: None,
            kind: None,
            only: None,
        }
    }
}

impl Watched for Those {
    type Record = Workload;

    fn turn(changed: Changed) -> Option<Turn<Workload>> {
        match changed {
            Changed::Workload(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Workload) -> bool {
        let project = self.project.as_ref();
        self.who.sees(&one.project)
            && self.only.as_ref().is_none_or(|only| *only == one.id)
            && project.is_none_or(|project| *project == one.project)
            && self.kind.is_none_or(|kind| kind == one.spec.kind)
    }

    fn page(&self, after: Option<&Workload>, limit: usize) -> Vec<Arc<Kept<Workload>>> {
        let tables = self.core.tables();
        match &self.only {
            None => {
                let accepted = |one: &&Arc<Kept<Workload>>| self.accepts(one);
                let rest = following(&tables.workloads, after.map(|one| &one.id));
                rest.filter(accepted).take(limit).cloned().collect()
            }
            Some(id) => tables.workloads.get(id).cloned().into_iter().collect(),
        }
    }

    fn revision(&self, one: &Workload) -> Option<Revision> {
        let tables = self.core.tables();
        tables.workloads.get(&one.id).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Workload>) -> Vec<u8> {
        let told = view::workload(&self.core, view::sees_secrets(&self.who), kept);
        answer::text(&told).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
