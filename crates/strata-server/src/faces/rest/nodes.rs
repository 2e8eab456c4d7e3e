//! `/node/`. Nodes come by themselves; people label, drain and dismiss them.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use strata_api::rest::{self, NodePatch, NodeStatus};
use strata_types::instance::Resources;

use super::RestState;
use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Thing};
use super::json;
use super::refusal::Answer;
use super::view::moment;
use super::watch::{self, Watched};
use crate::core::{Changed, Core, Kept, Node, NodeChange, NodeCondition, Page, Turn};

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

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["watch"])?;
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

fn status(node: &Node) -> NodeStatus {
    match node.condition {
        NodeCondition::Lost => NodeStatus::Lost,
        _ if node.leaving => NodeStatus::Leaving,
        _ if node.draining => NodeStatus::Draining,
        NodeCondition::Ready => NodeStatus::Ready,
        NodeCondition::Registered => NodeStatus::Registered,
    }
}

fn tell(core: &Core, node: &Kept<Node>) -> rest::Node {
    let live = core.live().node(&node.name);
    rest::Node {
        name: node.name.clone(),
        status: status(node),
        description: node.description.clone(),
        subnet: node.subnet.clone(),
        address: node.address.clone(),
        labels: node.all_labels(),
        capacity: Resources::from_amounts(node.cpu, node.memory, node.disk),
        reserved: core.reserved_on(&node.name),
        usage: live.map_or_else(Resources::default, |live| {
            let used = live.machine;
            Resources::from_amounts(used.cpu, used.memory, used.disk)
        }),
        gpus: node.gpus.clone(),
        instances: core.instances_on(&node.name),
        runs_vms: node.runs_vms,
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

    fn current(&self) -> Vec<Arc<Kept<Node>>> {
        match &self.only {
            None => {
                let mut all = self.core.nodes();
                all.retain(|one| self.accepts(one));
                all
            }
            Some(name) => self.core.node(name).into_iter().collect(),
        }
    }

    fn is_there(&self, one: &Node) -> bool {
        self.core.node(&one.name).is_ok()
    }

    fn tell(&self, kept: &Kept<Node>) -> Vec<u8> {
        answer::text(&tell(&self.core, kept)).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
