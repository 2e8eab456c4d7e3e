//! What becomes of instances of a lost node that are placed nowhere when it
//! returns. It may run them still, because its witnesses have extended its
//! lease, and from its Welcome on a server extends it. So this is written before
//! the Welcome is sent: each is the node's again, or is started elsewhere only
//! after the node has confirmed that nothing of it runs there.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use strata_types::Result;
use strata_types::instance::{DesiredState, InstanceId, InstanceState};

use super::commit::{WriteDecision, Writer};
use super::record::{Instance, Node, NodeCondition, NodePhase};
use super::update::{StateReason, set_state_because};
use super::{Core, Versioned};

/// Records that are written at the same time.
const MAX_CONCURRENT: usize = 64;

impl Core {
    /// A node that was lost is back: what has no other place by now is its own
    /// again, or waits for its confirmation.
    pub(crate) async fn resume_placements(&self, node: &str) -> Result<()> {
        let unplaced: Vec<InstanceId> = {
            let tables = self.tables();
            let left = tables.leaving.get(node).into_iter().flatten();
            let records = left.filter_map(|id| tables.instances.get(id));
            let unplaced = records.filter(|one| one.node.is_none());
            unplaced.map(|one| one.id.clone()).collect()
        };
        let resumed = unplaced.iter().map(|id| async move {
            let rule = |now: &Versioned<Instance>| {
                let takes = self.node(node).is_ok_and(|node| takes_instances(&node));
                Ok(resumed(now, node, takes))
            };
            self.change::<Instance>(Writer::Leader, id, rule).await
        });
        let written = stream::iter(resumed.collect::<Vec<_>>());
        let written = written.buffer_unordered(MAX_CONCURRENT);
        written.try_for_each(|_| async { Ok(()) }).await
    }
}

fn takes_instances(node: &Node) -> bool {
    let is_there = node.condition == NodeCondition::Ready && node.phase == NodePhase::Running;
    is_there && !node.draining
}

/// What follows for an instance from the return of a node that was lost. It is
/// placed there again only as it was there, and if that was its last placement:
/// a later one may have begun.
fn resumed(now: &Instance, node: &str, takes: bool) -> WriteDecision<Instance> {
    let lost = now.leaves(node).filter(|from| from.lost);
    let (Some(from), None) = (lost, &now.node) else {
        return WriteDecision::Keep;
    };
    let is_last = from.epoch == now.epoch && now.leaving.len() == 1;
    let is_same = from.generation == now.generation && !now.refusals.contains_key(node);
    let runs = now.desired_state == DesiredState::Running;
    let mut next = now.clone();
    if takes && runs && is_last && is_same {
        next.leaving.clear();
        next.place_on(node);
        let why = StateReason {
            full: format!("on node {node}, which is back"),
            limited: "its node is back".to_owned(),
        };
        set_state_because(&mut next, InstanceState::Scheduled, &why);
        return WriteDecision::put(next);
    }
    let entries = next.leaving.iter_mut().filter(|from| from.node == node);
    entries.for_each(|from| from.lost = false);
    WriteDecision::put(next)
}
