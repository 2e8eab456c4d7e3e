//! `/node/`. Nodes come by themselves; people label, drain and dismiss them.

use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use strata_api::rest::{self, NodePatch, NodeStatus};
use strata_identity::policy::{ADMIN, NAMED, OPERATE, READ};
use strata_types::instance::Resources;
use strata_types::{Error, ErrorKind, Result};
use strata_workflow::Kind as _;

use super::RestState;
use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, Reader, ResourceId};
use super::json;
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::watch::{self, Selection};
use crate::core::{
    Core, Effect, Node, NodeChange, NodeCondition, NodePhase, Page, Principal, Versioned,
    expect_effect, keys,
};
use crate::operations::Drain;

/// How a node names itself.
const SELF: &str = "self";
const STATUSES: [NodeStatus; 5] = [
    NodeStatus::Registered,
    NodeStatus::Ready,
    NodeStatus::Draining,
    NodeStatus::Leaving,
    NodeStatus::Lost,
];

pub(super) fn routes() -> Noun {
    Noun::new("node", "Hosts that run instances.")
        .id("Name.")
        .routes([
            route::get("/node", READ, list)
                .named("listNodes", "List nodes")
                .about("All nodes, ordered by ID.")
                .parameters(&["node state"])
                .returns_watchable_list::<rest::Node>(),
            route::get("/node/{id}", NAMED, show)
                .named("getNode", "Get a node")
                .about("Capacity, labels and observed state of one node.")
                .returns_versioned::<rest::Node>(),
            route::patch("/node/{id}", OPERATE, update)
                .named("updateNode", "Update a node")
                .about("Sets labels, drains the node or makes it schedulable again.")
                .body::<NodePatch>()
                .example(json!({ "draining": true, "labels": { "zone": "a" } }))
                .updates::<rest::Node>(),
            route::delete("/node/{id}", ADMIN, leave)
                .named("deleteNode", "Delete a node")
                .about("The node is drained, then removed from the control plane.")
                .parameters(&["now"])
                .deletes_versioned(),
            route::post("/node/{id}/drain", OPERATE, super::operations::drain)
                .named("drainNode", "Drain a node")
                .about("Starts an operation that evicts all instances to other nodes.")
                .body::<rest::DrainRequest>()
                .starts(Drain::NAME),
            route::post("/node/{id}/adopt", ADMIN, adopt)
                .named("adoptInstances", "Adopt the instances of a node")
                .about("Takes over instances that another control plane assigned to the node.")
                .accepts(),
            route::post("/node/{id}/forget", ADMIN, remove)
                .named("forgetInstances", "Destroy unknown instances of a node")
                .about("Destroys whatever runs on the node without a record in this control plane.")
                .accepts(),
        ])
}

async fn list(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "state", "watch"])?;
    let status_wanted = parameters.one_of("state", &STATUSES, NodeStatus::as_str)?;
    let (limit, offset) = parameters.pagination()?;
    let core = state.core.clone();
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, watched(&core, status_wanted)));
    }
    let all = core.nodes().into_iter();
    let all = all.filter(|one| status_wanted.is_none_or(|expected| expected == status(one)));
    let page = Page::of(all, offset, limit);
    answer::list(page.total, page.items.iter().map(|one| render(&core, one)))
}

/// The name that a caller means: a node may read itself, and nothing else.
fn meant(principal: &Principal, name: String) -> Result<String> {
    match principal.own_node() {
        None => Ok(name),
        Some(own) if name == SELF || name == own => Ok(own.to_owned()),
        Some(own) => {
            let why = format!("node {own} may read itself only");
            Err(Error::new(ErrorKind::PermissionDenied, why).with_hint("read /node/self"))
        }
    }
}

async fn show(
    State(state): State<RestState>,
    reader: Reader,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["watch"])?;
    let principal = reader.authenticated(&state.core).await?;
    let name = meant(&principal, name)?;
    let found = state.core.node(&name)?;
    if parameters.flag("watch")? {
        let selection = watched(&state.core, None).only(name);
        return Ok(watch::follow(&state, selection));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    answer::one(StatusCode::OK, found.revision, &render(&state.core, &found))
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
    let found = state.core.node(&name)?;
    let precondition = conditions.to_change(found.revision)?;
    let patch: NodePatch = json::parse(&body)?;
    let labels = patch.labels.unwrap_or_default().into_iter();
    let change = NodeChange {
        labels: labels
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect(),
        draining: patch.draining,
        limits: patch.limits,
        ..NodeChange::default()
    };
    expect_effect(Effect::updates(keys::node(&name)));
    let changed = state
        .core
        .update_node(&principal, &name, &change, precondition);
    let changed = changed.await.map_err(|error| conditions.reject(error))?;
    answer::one(
        StatusCode::OK,
        changed.revision,
        &render(&state.core, &changed),
    )
}

/// It is emptied, then removed; or revoked at once, and removed when its lease
/// has ended.
async fn leave(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["now"])?;
    let found = state.core.node(&name)?;
    let precondition = conditions.to_change(found.revision)?;
    if parameters.flag("now")? {
        let core = &state.core;
        let gone = core.remove_node_at_once(&principal, &name, precondition);
        gone.await.map_err(|error| conditions.reject(error))?;
        return Ok(accepted());
    }
    let change = NodeChange {
        leaves: true,
        ..NodeChange::default()
    };
    expect_effect(Effect::accepts(keys::node(&name)));
    let gone = state
        .core
        .update_node(&principal, &name, &change, precondition);
    gone.await.map_err(|error| conditions.reject(error))?;
    Ok(accepted())
}

/// What other control planes assigned to it is this one's.
async fn adopt(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    state.core.take_over(&principal, &name, false)?;
    Ok(accepted())
}

/// What no record is of is destroyed there.
async fn remove(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    state.core.take_over(&principal, &name, true)?;
    Ok(accepted())
}

fn unknown(core: &Core, node: &Node) -> Vec<rest::UnknownInstance> {
    let all = core.live().unknown_on(&node.name).into_iter();
    let told = all.map(|one| rest::UnknownInstance {
        id: one.id,
        control_plane: one.control_plane,
        runs: one.runs,
    });
    told.collect()
}

fn status(node: &Node) -> NodeStatus {
    match node.condition {
        NodeCondition::Lost => NodeStatus::Lost,
        _ if node.leaving => NodeStatus::Leaving,
        _ if node.draining || node.phase == NodePhase::Stopping => NodeStatus::Draining,
        NodeCondition::Ready if node.phase == NodePhase::Starting => NodeStatus::Registered,
        NodeCondition::Ready => NodeStatus::Ready,
        NodeCondition::Registered => NodeStatus::Registered,
    }
}

/// What the node reports of itself, and that it gets no instances where that is
/// so.
fn description(node: &Node) -> String {
    let ignores = "gets no instances: it did not take those assigned to it, and does not read them";
    match (node.ignores_instances, node.description.as_str()) {
        (false, said) => said.to_owned(),
        (true, "") => ignores.to_owned(),
        (true, said) => format!("{said}; {ignores}"),
    }
}

fn render(core: &Core, node: &Versioned<Node>) -> rest::Node {
    let live = core.live().node(&node.name);
    rest::Node {
        name: node.name.clone(),
        status: status(node),
        description: description(node),
        subnet: node.subnet.clone(),
        address: node.address.clone(),
        labels: node.all_labels(),
        requested_labels: node.requested_labels.clone().unwrap_or_default(),
        capacity: Resources::from_amounts(node.cpu, node.memory, node.disk),
        reserved: core.reserved_on(&node.name),
        usage: live.map_or_else(Resources::default, |live| {
            let used = live.machine;
            Resources::from_amounts(used.cpu, used.memory, used.disk)
        }),
        gpus: node.gpus.clone(),
        limits: node.limits,
        instances: core.instances_on(&node.name),
        runs_vms: node.runs_vms,
        overlay_encryption: node.overlay.describe(),
        unknown_instances: unknown(core, node),
        draining: node.draining,
        version: node.version.clone(),
        created_at: timestamp(node.created_at_ms),
        changed_at: timestamp(node.changed_at_ms),
    }
}

/// Nodes that are watched.
fn watched(core: &Core, expected: Option<NodeStatus>) -> Selection<Node> {
    let shown = core.clone();
    let accepts = move |one: &Node| expected.is_none_or(|expected| expected == status(one));
    Selection::of(core, accepts, move |one| answer::text(&render(&shown, one)))
}
