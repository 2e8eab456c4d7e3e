//! `/node/`. Nodes come by themselves; people label, drain and dismiss them.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use strata_api::rest::{self, NodePatch, NodeStatus};
use strata_store::Revision;
use strata_types::instance::Resources;
use strata_types::{Error, ErrorKind, Result};

use super::RestState;
use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Reader, Thing};
use super::json;
use super::refusal::Answer;
use super::view::moment;
use super::watch::{self, Watched, following};
use crate::core::{
    Changed, Core, Kept, Node, NodeChange, NodeCondition, NodePhase, Page, Turn, Who,
};

/// How a node names itself.
const SELF: &str = "self";
const STATUSES: [NodeStatus; 5] = [
    NodeStatus::Registered,
    NodeStatus::Ready,
    NodeStatus::Draining,
    NodeStatus::Leaving,
    NodeStatus::Lost,
];

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "state", "watch"])?;
    let status_wanted = parameters.one_of("state", &STATUSES, NodeStatus::as_str)?;
    let (limit, offset) = parameters.piece()?;
    let core = state.core.clone();
    if parameters.flag("watch")? {
        let those = Those {
            core,
            status: status_wanted,
            only: None,
        };
        return Ok(watch::follow(&state, those));
    }
    let all = core.nodes().into_iter();
    let all = all.filter(|one| status_wanted.is_none_or(|wanted| wanted == status(one)));
    let page = Page::of(all, offset, limit);
    answer::list(page.total, page.items.iter().map(|one| tell(&core, one)))
}

/// The name that a caller means: a node may ask for itself, and for nothing
/// else.
fn meant(who: &Who, name: String) -> Result<String> {
    match who.own_node() {
        None => Ok(name),
        Some(own) if name == SELF || name == own => Ok(own.to_owned()),
        Some(own) => {
            let why = format!("node {own} may read itself only");
            Err(Error::new(ErrorKind::PermissionDenied, why).with_hint("read /node/self"))
        }
    }
}

pub(super) async fn show(
    State(state): State<RestState>,
    reader: Reader,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["watch"])?;
    let who = reader.admitted(&state.core).await?;
    let name = meant(&who, name)?;
    let found = state.core.node(&name)?;
    if parameters.flag("watch")? {
        let one = Those {
            core: state.core.clone(),
            status: None,
            only: Some(name),
        };
        return Ok(watch::follow(&state, one));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    answer::one(StatusCode::OK, found.revision, &tell(&state.core, &found))
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
        leaves: false,
    };
    let changed = state.core.update_node(&who, &name, &change, precondition);
    let changed = changed.await.map_err(|error| conditions.judge(error))?;
    answer::one(
        StatusCode::OK,
        changed.revision,
        &tell(&state.core, &changed),
    )
}

/// It is emptied, then forgotten.
pub(super) async fn leave(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&[])?;
    let found = state.core.node(&name)?;
    let precondition = conditions.to_change(found.revision)?;
    let change = NodeChange {
        leaves: true,
        ..NodeChange::default()
    };
    let gone = state.core.update_node(&who, &name, &change, precondition);
    gone.await.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

/// What other control planes assigned to it is this one's.
pub(super) async fn adopt(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    state.core.take_over(&who, &name, false)?;
    Ok(accepted())
}

/// What no record is of is destroyed there.
pub(super) async fn forget(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    state.core.take_over(&who, &name, true)?;
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

/// What the node says of itself, and that it gets no instances where that is so.
fn description(node: &Node) -> String {
    let ignores = "gets no instances: it did not take those assigned to it, and does not read them";
    match (node.ignores_instances, node.description.as_str()) {
        (false, said) => said.to_owned(),
        (true, "") => ignores.to_owned(),
        (true, said) => format!("{said}; {ignores}"),
    }
}

fn tell(core: &Core, node: &Kept<Node>) -> rest::Node {
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
        created_at: moment(node.created_at_ms),
        changed_at: moment(node.changed_at_ms),
    }
}

/// Nodes that are followed.
struct Those {
    core: Core,
    status: Option<NodeStatus>,
    only: Option<String>,
}

impl Watched for Those {
    type Record = Node;

    fn turn(changed: Changed) -> Option<Turn<Node>> {
        match changed {
            Changed::Node(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Node) -> bool {
        self.only.as_ref().is_none_or(|only| *only == one.name)
            && self.status.is_none_or(|wanted| wanted == status(one))
    }

    fn page(&self, after: Option<&Node>, limit: usize) -> Vec<Arc<Kept<Node>>> {
        let tables = self.core.tables();
        let accepted = |one: &&Arc<Kept<Node>>| self.accepts(one);
        match &self.only {
            None => {
                let rest = following(&tables.nodes, after.map(|one| &one.name));
                rest.filter(accepted).take(limit).cloned().collect()
            }
            Some(name) => tables.nodes.get(name).cloned().into_iter().collect(),
        }
    }

    fn revision(&self, one: &Node) -> Option<Revision> {
        let tables = self.core.tables();
        tables.nodes.get(&one.name).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Node>) -> Vec<u8> {
        answer::text(&tell(&self.core, kept)).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
