//! Why this node, and for every other node the first reason against it.
//!
//! Checks the feasibility of all nodes, so it takes time that grows with them.
//! It decides as [`place`](crate::place) would, and changes nothing.

use std::cmp::Reverse;

use crate::feasibility::Feasibility;
use crate::search::start;
use crate::{Fleet, NodeId, Reason, Request, Score};

/// Why a request would go where it would go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The best node and what makes it so, if one fits.
    pub chosen: Option<(NodeId, Score)>,
    /// Where the instance is, if it is placed. The world may have changed
    /// since, so that another node would be chosen today.
    pub current: Option<NodeId>,
    /// For every node but the chosen one, the first reason against it.
    pub others: Vec<(NodeId, Reason)>,
}

/// Explains where a request would go. If its instance is placed, the answer is
/// where it would go if it were not.
#[must_use]
pub fn explain(fleet: &Fleet, request: &Request) -> Explanation {
    let Some(current) = fleet.place_of(request.instance) else {
        return explain_new(fleet, request);
    };
    let mut without = fleet.clone();
    if without.release(request.instance).is_err() {
        return explain_new(fleet, request);
    }
    Explanation {
        current: Some(current),
        ..explain_new(&without, request)
    }
}

fn explain_new(fleet: &Fleet, request: &Request) -> Explanation {
    let compiled = fleet
        .compiled_rules
        .register(&request.rules, &fleet.nodes, &fleet.instances);
    let feasibility = Feasibility {
        fleet,
        compiled: &compiled,
        request,
    };
    let scored: Vec<(usize, Result<Score, Reason>)> = fleet
        .nodes
        .iter()
        .map(|(node, slot)| (node, feasibility.check(node, slot)))
        .collect();
    let from = start(fleet, feasibility.policy(), request);
    let fitting = scored
        .iter()
        .filter_map(|(node, score)| Some((*node, *score.as_ref().ok()?)));
    let chosen = fitting.max_by_key(|(node, score)| {
        let order = crate::index::order(from, *node);
        (*score, Reverse(order))
    });
    let against = |judgement: Result<Score, Reason>| match (judgement, chosen) {
        (Err(reason), _) => reason,
        (Ok(score), Some((_, best))) if score != best => Reason::Worse { score, best },
        (Ok(_), _) => Reason::Later,
    };
    let others = scored.into_iter();
    let others = others.filter(|(node, _)| chosen.is_none_or(|(best, _)| best != *node));
    Explanation {
        chosen: chosen.map(|(node, score)| (NodeId(node as u32), score)),
        current: None,
        others: others
            .map(|(node, judgement)| (NodeId(node as u32), against(judgement)))
            .collect(),
    }
}
