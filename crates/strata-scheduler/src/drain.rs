//! Empties a node: everything on it gets another place, in one plan.

use std::cmp::Reverse;

use crate::place::Batch;
use crate::{Fleet, FleetError, NodeId, NodeState, Plan};

/// Closes a node and decides where its instances go: higher priority first.
///
/// Each is taken off the node before its new place is sought, so spreads and
/// affinities count it once. An instance that finds no other place stays, and
/// the plan says why. No instance elsewhere is stopped for it. A node that is
/// lost stays lost.
pub fn drain(fleet: &mut Fleet, node: NodeId) -> Result<Plan, FleetError> {
    if fleet.state(node)? == NodeState::Ready {
        fleet.set_state(node, NodeState::Draining)?;
    }
    let mut leaving: Vec<_> = fleet
        .instances_on(node)?
        .into_iter()
        .filter_map(|instance| {
            let place = fleet.instances.place(instance)?;
            Some((fleet.request_of(instance)?, *fleet.instances.get(place)?))
        })
        .collect();
    leaving.sort_by_key(|(request, _)| (Reverse(request.priority), request.instance));
    let mut batch = Batch::default();
    for (number, (request, placed)) in leaving.into_iter().enumerate() {
        fleet.release(request.instance)?;
        let mut preemption_and_drain = request.clone();
        preemption_and_drain.preempts = false;
        if batch.place(fleet, number, &preemption_and_drain, Some(node)) {
            fleet.set_preempts(request.instance, request.preempts);
        } else {
            fleet.restore_eviction(&request, &placed);
        }
    }
    Ok(batch.plan)
}
