//! `/instance/`.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value};
use strata_store::Revision;
use strata_types::instance::{InstanceId, InstanceKind, InstanceSpec, InstanceState};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Reader, Thing};
use super::json::{self, take_text};
use super::refusal::Answer;
use super::watch::{self, Watched, following};
use super::{RestState, patch, view};
use crate::core::{
    Changed, Core, DEFAULT_PROJECT, Filter, Instance, Kept, NewInstance, Turn, Wanted, Who,
};

pub(super) async fn list(
    State(state): State<RestState>,
    reader: Reader,
    parameters: Parameters,
) -> Answer {
    let who = reader.admitted(&state.core).await?;
    parameters.only(&[
        "limit", "offset", "type", "state", "project", "node", "workload", "watch",
    ])?;
    let filter = filter(&state.core, &who, &parameters)?;
    let (limit, offset) = parameters.piece()?;
    if let Some(node) = who.own_node() {
        // It reads what is assigned to it, and will take it.
        state.core.live().read_instances(node);
        state.core.node_takes_instances(node).await?;
    }
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, Those::new(&state.core, who, filter)));
    }
    let page = state.core.instances(&who, &filter, offset, limit);
    let items = page.items.iter();
    let items = items.map(|one| view::instance(&state.core, &who, one));
    answer::list(page.total, items)
}

fn filter(core: &Core, who: &Who, parameters: &Parameters) -> Answer<Filter> {
    let project = parameters.label("project")?;
    let workload = match parameters.text("workload")? {
        None => None,
        // Of one that is gone there may still be instances.
        Some(text) => match core.workload(who, project.as_ref(), text) {
            Ok(found) => Some(found.id.clone()),
            Err(_) => Some(InstanceId::from_field("workload", text)?),
        },
    };
    Ok(Filter {
        project,
        kind: parameters.one_of("type", &InstanceKind::ALL, InstanceKind::as_str)?,
        state: parameters.one_of("state", &InstanceState::ALL, InstanceState::as_str)?,
        node: parameters.name("node")?,
        workload,
    })
}

pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["project"])?;
    let new = new(parameters.label("project")?, json::parse(&body)?)?;
    let (made, is_new) = state.core.create_instance(&who, new).await?;
    let told = view::instance(&state.core, &who, &made);
    let location = format!("/instance/{}", made.id);
    answer::made(is_new, &location, made.revision, &told)
}

fn new(project: Option<Label>, mut object: Map<String, Value>) -> Result<NewInstance> {
    // An empty text is what a structure has in which nothing was set.
    let mut text = |field: &str| {
        let text = take_text(&mut object, field)?;
        Ok::<_, Error>(text.filter(|text| !text.is_empty()))
    };
    let (id, name) = (text("id")?, text("name")?);
    let (given, workload) = (text("project")?, text("workloadId")?);
    let wanted = text("status")?.map(|word| created_as(&word));
    let wanted = wanted.transpose()?;
    if let (Some(_), Some(field)) = (&workload, object.keys().next()) {
        let field: String = field.chars().take(80).collect();
        let why = "cannot be given beside workloadId: the workload says it";
        return Err(Error::invalid(field, why));
    }
    Ok(NewInstance {
        id: id.map(|id| InstanceId::from_field("id", &id)).transpose()?,
        name: name
            .map(|name| Label::from_field("name", &name))
            .transpose()?,
        project: in_project(project, given)?,
        spec: match workload {
            Some(_) => InstanceSpec::default(),
            None => json::spec(object)?,
        },
        workload,
        fresh_id: None,
        wanted,
    })
}

/// What an instance with this status is created to be.
fn created_as(word: &str) -> Result<Wanted> {
    let ended = || {
        let why = format!("is {word}; an instance is created RUNNING or STOPPED");
        Error::invalid("status", why)
    };
    patch::wanted_of(word)?.ok_or_else(ended)
}

/// The project of something new: as its body says, as the parameter says,
/// `default`.
pub(super) fn in_project(parameter: Option<Label>, given: Option<String>) -> Result<Label> {
    let given = given.map(|text| Label::from_field("project", &text));
    match (given.transpose()?, parameter) {
        (Some(given), Some(parameter)) if given != parameter => Err(Error::invalid(
            "project",
            format!("is {given} in the body and {parameter} in the query"),
        )),
        (Some(given), _) => Ok(given),
        (None, Some(parameter)) => Ok(parameter),
        (None, None) => Label::from_field("project", DEFAULT_PROJECT),
    }
}

pub(super) async fn show(
    State(state): State<RestState>,
    reader: Reader,
    Thing(thing): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    let who = reader.admitted(&state.core).await?;
    parameters.only(&["project", "watch"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&who, project.as_ref(), &thing)?;
    if parameters.flag("watch")? {
        let mut one = Those::new(&state.core, who, Filter::default());
        one.only = Some(found.id.clone());
        return Ok(watch::follow(&state, one));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = view::instance(&state.core, &who, &found);
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
    let found = state.core.instance(&who, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    let shown = patch::shown(&view::instance(&state.core, &who, &found))?;
    let mut change = patch::instance(&found.spec, &shown, json::parse(&body)?)?;
    change.made_from = Some(found.generation);
    let core = &state.core;
    let changed = core.update_instance(&who, &found.id, change, precondition);
    let changed = changed.await.map_err(|error| conditions.judge(error))?;
    let told = view::instance(core, &who, &changed);
    answer::one(StatusCode::OK, changed.revision, &told)
}

pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(thing): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["project", "force"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&who, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    if parameters.flag("force")? {
        state.core.force_delete_instance(&who, &found.id).await?;
        return Ok(accepted());
    }
    let gone = state.core.delete_instance(&who, &found.id, precondition);
    gone.await.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

/// Why it is where it is.
pub(super) async fn placement(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(thing): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&who, project.as_ref(), &thing)?;
    let names = !who.is_limited();
    answer::json(&state.placement.explain(&found.id, names).await?)
}

/// Instances that are followed.
struct Those {
    core: Core,
    who: Who,
    filter: Filter,
    only: Option<InstanceId>,
}

impl Those {
    fn new(core: &Core, who: Who, filter: Filter) -> Self {
        Self {
            core: core.clone(),
            who,
            filter,
            only: None,
        }
    }
}

impl Watched for Those {
    type Record = Instance;

    fn turn(changed: Changed) -> Option<Turn<Instance>> {
        match changed {
            Changed::Instance(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Instance) -> bool {
        let only = self.only.as_ref().is_none_or(|only| *only == one.id);
        only && self.who.sees_instance(one) && self.filter.accepts(one)
    }

    fn page(&self, after: Option<&Instance>, limit: usize) -> Vec<Arc<Kept<Instance>>> {
        let tables = self.core.tables();
        match &self.only {
            None => {
                let accepted = |one: &&Arc<Kept<Instance>>| self.accepts(one);
                let rest = following(&tables.instances, after.map(|one| &one.id));
                rest.filter(accepted).take(limit).cloned().collect()
            }
            Some(id) => tables.instances.get(id).cloned().into_iter().collect(),
        }
    }

    fn revision(&self, one: &Instance) -> Option<Revision> {
        let tables = self.core.tables();
        tables.instances.get(&one.id).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Instance>) -> Vec<u8> {
        let told = view::instance(&self.core, &self.who, kept);
        answer::text(&told).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
