//! `/instance/`.

use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value, json};
use strata_api::rest;
use strata_identity::policy::{NAMED, OPERATE, READ};
use strata_types::instance::{InstanceId, InstanceKind, InstanceSpec, InstanceState};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, Reader, ResourceId};
use super::json::{self, take_text};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::watch::{self, Selection};
use super::{RestState, patch, view};
use crate::core::{
    Core, DEFAULT_PROJECT, DesiredState, Effect, Filter, Instance, NewInstance, Principal,
    expect_effect, keys,
};

pub(super) fn routes() -> Noun {
    Noun::new("instance", "Containers and virtual machines.")
        .id("ID, name, or `PROJECT/NAME` with the slash encoded as `%2F`.")
        .in_projects()
        .routes([
            route::get("/instance", NAMED, list)
                .named("listInstances", "List instances")
                .about("Instances of all projects the caller may see, ordered by ID.")
                .parameters(&["type", "state", "project", "node", "workload"])
                .returns_watchable_list::<rest::Instance>(),
            route::put("/instance", OPERATE, create)
                .named("createInstance", "Create an instance")
                .about(
                    "Creates a container or a virtual machine. The scheduler assigns it to a \
                    node.",
                )
                .parameters(&["new project"])
                .body::<rest::NewInstance>()
                .example(web_example())
                .creates::<rest::Instance>(),
            route::get("/instance/{id}", NAMED, show)
                .named("getInstance", "Get an instance")
                .about("Specification and observed state of one instance.")
                .parameters(&["project"])
                .returns_versioned::<rest::Instance>(),
            route::patch("/instance/{id}", OPERATE, update)
                .named("updateInstance", "Update, start or stop an instance")
                .about(
                    "Fields that are left out keep their value; `null` resets a field to its \
                    default.",
                )
                .parameters(&["project"])
                .body::<rest::InstancePatch>()
                .example(json!({ "status": "STOPPED" }))
                .updates::<rest::Instance>(),
            route::delete("/instance/{id}", OPERATE, delete)
                .named("deleteInstance", "Delete an instance")
                .about(
                    "The instance is stopped and removed from its node, then its record is \
                    deleted.",
                )
                .parameters(&["project", "force"])
                .deletes_versioned(),
            route::get("/instance/{id}/placement", READ, placement)
                .named("explainInstance", "Explain the placement of an instance")
                .about("For every node, whether the instance fits there and why.")
                .parameters(&["project"])
                .returns::<rest::Placement>(),
            route::get("/instance/{id}/logs", READ, super::session::logs)
                .named("readInstanceLogs", "Read the logs of an instance")
                .about("Standard output and standard error of the instance as plain text.")
                .parameters(&["project", "follow", "tail", "previous"])
                .returns_text()
                .requires_running(),
            route::post("/instance/{id}/exec", OPERATE, super::session::exec)
                .named("runInInstance", "Run a command in an instance")
                .about("Runs a command to completion and returns its output and exit code.")
                .parameters(&["project"])
                .body::<rest::ExecRequest>()
                .returns::<rest::ExecResult>()
                .requires_running()
                .repeats(),
        ])
}

/// An example of an instance, and of a workload.
pub(super) fn web_example() -> Value {
    json!({
        "name": "web",
        "uri": "docker.io/library/nginx:1.27",
        "environment": ["GREETING=hello"],
        "resources": { "cpu": 500, "memory": 128, "disk": 1 },
        "ports": ["8080:80"],
    })
}

async fn list(State(state): State<RestState>, reader: Reader, parameters: Parameters) -> Answer {
    let principal = reader.authenticated(&state.core).await?;
    parameters.deny_unknown(&[
        "limit", "offset", "type", "state", "project", "node", "workload", "watch",
    ])?;
    let filter = filter(&state.core, &principal, &parameters)?;
    let (limit, offset) = parameters.pagination()?;
    if let Some(node) = principal.own_node() {
        // It reads what is assigned to it, and will take it.
        state.core.live().read_instances(node);
        state.core.node_takes_instances(node).await?;
    }
    if parameters.flag("watch")? {
        let selection = watched(&state.core, principal.clone(), filter);
        let answer = watch::follow(&state, selection);
        return Ok(view::with_values(&principal, answer));
    }
    let page = state.core.instances(&principal, &filter, offset, limit);
    let items = page.items.iter();
    let items = items.map(|one| view::instance(&state.core, &principal, one));
    let answer = answer::list(page.total, items)?;
    Ok(view::with_values(&principal, answer))
}

fn filter(core: &Core, principal: &Principal, parameters: &Parameters) -> Answer<Filter> {
    let project = parameters.label("project")?;
    let workload = match parameters.text("workload")? {
        None => None,
        // Of one that is gone there may still be instances.
        Some(text) => match core.workloads().find(principal, project.as_ref(), text) {
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

async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let new = new(parameters.label("project")?, json::parse(&body)?)?;
    let (made, is_new) = state.core.create_instance(&principal, new).await?;
    let told = view::instance(&state.core, &principal, &made);
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
    let desired_state = text("status")?.map(|word| created_as(&word));
    let desired_state = desired_state.transpose()?;
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
        desired_state,
    })
}

/// What an instance with this status is created to be.
fn created_as(word: &str) -> Result<DesiredState> {
    let ended = || {
        let why = format!("is {word}; an instance is created RUNNING or STOPPED");
        Error::invalid("status", why)
    };
    patch::desired_state_of(word)?.ok_or_else(ended)
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

async fn show(
    State(state): State<RestState>,
    reader: Reader,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    let principal = reader.authenticated(&state.core).await?;
    parameters.deny_unknown(&["project", "watch"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&principal, project.as_ref(), &thing)?;
    if parameters.flag("watch")? {
        let selection = watched(&state.core, principal.clone(), Filter::default());
        let answer = watch::follow(&state, selection.only(found.id.clone()));
        return Ok(view::with_values(&principal, answer));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    let told = view::instance(&state.core, &principal, &found);
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
    let found = state.core.instance(&principal, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    let shown = patch::shown(&view::instance(&state.core, &principal, &found))?;
    let mut change = patch::instance(&found.spec, &shown, json::parse(&body)?)?;
    change.made_from = Some(found.generation);
    expect_effect(Effect::updates(keys::instance(&found.id)));
    let core = &state.core;
    let changed = core.update_instance(&principal, &found.id, change, precondition);
    let changed = changed.await.map_err(|error| conditions.reject(error))?;
    let told = view::instance(core, &principal, &changed);
    answer::one(StatusCode::OK, changed.revision, &told)
}

async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["project", "force"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&principal, project.as_ref(), &thing)?;
    let precondition = conditions.to_change(found.revision)?;
    if parameters.flag("force")? {
        expect_effect(Effect::deletes(keys::instance(&found.id)));
        state
            .core
            .force_delete_instance(&principal, &found.id)
            .await?;
        return Ok(accepted());
    }
    expect_effect(Effect::accepts(keys::instance(&found.id)));
    let gone = state
        .core
        .delete_instance(&principal, &found.id, precondition);
    gone.await.map_err(|error| conditions.reject(error))?;
    Ok(accepted())
}

/// Why it is where it is.
async fn placement(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(thing): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&principal, project.as_ref(), &thing)?;
    let names = !principal.is_limited();
    answer::json(&state.placement.explain(&found.id, names).await?)
}

/// The instances that a caller watches.
fn watched(core: &Core, principal: Principal, filter: Filter) -> Selection<Instance> {
    let (viewer, shown) = (principal.clone(), core.clone());
    let accepts = move |one: &Instance| principal.sees_instance(one) && filter.accepts(one);
    Selection::of(core, accepts, move |one| {
        answer::text(&view::instance(&shown, &viewer, one))
    })
}
