//! Reschedules what was on a node that is lost.

use futures_util::future::join_all;
use strata_types::instance::{DesiredState, InstanceId, RunPolicy};

use super::record::{Node, PendingRelease};
use super::reports::NodeLoss;
use super::tables::Versioned;
use super::{Core, StateReason};

/// Which instances of a lost node are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    All,
    /// Those that may overlap with their successors.
    Available,
}

impl Core {
    /// Moves everything off a node that is gone for certain.
    pub(crate) async fn fail_over_all(&self, node: &Versioned<Node>) {
        let loss = NodeLoss {
            node: node.name.clone(),
            revision: Some(node.revision),
            silent: false,
            witnessed: false,
        };
        self.fail_over_node(&loss, usize::MAX, Moved::All).await;
    }

    /// Moves instances off a node; how many.
    pub(crate) async fn fail_over_node(&self, loss: &NodeLoss, most: usize, which: Moved) -> usize {
        let node = &*loss.node;
        let on: Vec<InstanceId> = {
            let tables = self.tables();
            let (on, leaving) = (tables.on_node.get(node), tables.leaving.get(node));
            let is_done = |id: &InstanceId| {
                let Some(one) = tables.instances.get(id) else {
                    return true;
                };
                let goes_on = |from: &PendingRelease| match from.unleased {
                    true => loss.silent,
                    false => loss.witnessed,
                };
                let is_noted = |from: &PendingRelease| from.lost && goes_on(from);
                one.desired_state != DesiredState::Gone && one.leaves(node).is_some_and(is_noted)
            };
            let leaving = leaving.into_iter().flatten().filter(|id| !is_done(id));
            let all = on.into_iter().flatten().chain(leaving);
            let is_available = |id: &InstanceId| {
                let one = tables.instances.get(id);
                one.is_some_and(|one| one.spec.placement.runs == RunPolicy::Available)
            };
            let chosen = all.filter(|id| which == Moved::All || is_available(id));
            chosen.take(most).cloned().collect()
        };
        let why = StateReason {
            full: format!("its node {node} was lost"),
            limited: "its node was lost".into(),
        };
        let moves = on.iter().map(|id| self.fail_over(loss, id, &why));
        for moved in join_all(moves).await {
            if let Err(error) = moved {
                tracing::warn!(node, %error, "instance not rescheduled from its lost node");
            }
        }
        on.len()
    }
}
