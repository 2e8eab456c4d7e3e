//! Decides for a batch of requests.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::feasibility::Feasibility;
use crate::fleet::Fleet;
use crate::preempt::preempt;
use crate::search::{Scratch, search};
use crate::{Cause, Failure, NodeId, Placement, Plan, ReasonCount, Request};

/// Decides where requests go: higher priority first, then as given. What is
/// decided is reserved in the fleet at once, so later requests see it. To see
/// what would be, give a clone.
pub fn place(fleet: &mut Fleet, requests: &[Request]) -> Plan {
    let mut batch = Batch::default();
    batch.plan.placements.reserve(requests.len());
    if requests.is_sorted_by_key(|request| Reverse(request.priority)) {
        for (number, request) in requests.iter().enumerate() {
            batch.place(fleet, number, request, None);
        }
        return batch.plan;
    }
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&number| Reverse(requests[number].priority));
    for number in order {
        batch.place(fleet, number, &requests[number], None);
    }
    batch.plan
}

/// What is decided so far, and what helps to decide the rest.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) plan: Plan,
    scratch: Scratch,
    /// Requests that found nothing, and why. While a fleet only fills up, the
    /// next of the same kind finds nothing either. Moves do not use this: the
    /// instance that leaves one place may be what kept others away.
    unschedulable: Vec<(Request, Vec<ReasonCount>)>,
}

impl Batch {
    /// Decides for one request, that comes from a node or from nowhere.
    pub(crate) fn place(
        &mut self,
        fleet: &mut Fleet,
        number: usize,
        request: &Request,
        from: Option<NodeId>,
    ) -> bool {
        let instance = request.instance;
        if let Some(node) = fleet.place_of(instance) {
            self.fail(number, request, Cause::AlreadyPlaced(node));
            return false;
        }
        if from.is_none()
            && let Some(reasons) = self.known_unschedulable(request)
        {
            self.fail(number, request, Cause::NoNodeFits(reasons));
            return false;
        }
        let rules = fleet.compile(&request.rules);
        let Some(compiled) = fleet.compiled_rules.get(rules) else {
            return false;
        };
        let free = search(fleet, compiled, request, &mut self.scratch);
        let free = free.map(|(node, score)| (node, score, Vec::new()));
        let found = match free {
            None if request.preempts => preempt(fleet, request, rules),
            found => found,
        };
        let Some((node, score, evictions)) = found else {
            self.record_unschedulable(fleet, number, request, rules);
            return false;
        };
        fleet.commit(request, rules, node);
        self.plan.placements.push(Placement {
            request: number,
            instance,
            node: NodeId(node as u32),
            from,
            score,
            after: evictions.iter().map(|eviction| eviction.instance).collect(),
        });
        if !evictions.is_empty() {
            self.plan.evictions.extend(evictions);
            self.unschedulable.clear();
        }
        true
    }

    fn record_unschedulable(
        &mut self,
        fleet: &Fleet,
        number: usize,
        request: &Request,
        rules: u32,
    ) {
        let Some(compiled) = fleet.compiled_rules.get(rules) else {
            return;
        };
        let reasons = Feasibility {
            fleet,
            compiled,
            request,
        }
        .summary();
        if !compiled.may_gain() {
            self.unschedulable.push((request.clone(), reasons.clone()));
        }
        self.fail(number, request, Cause::NoNodeFits(reasons));
    }

    fn known_unschedulable(&self, request: &Request) -> Option<Vec<ReasonCount>> {
        let alike = |(failed, _): &&(Request, Vec<ReasonCount>)| {
            Arc::ptr_eq(&failed.rules, &request.rules)
                && failed.resources == request.resources
                && failed.priority >= request.priority
                && failed.preempts >= request.preempts
        };
        let (_, reasons) = self.unschedulable.iter().find(alike)?;
        Some(reasons.clone())
    }

    fn fail(&mut self, request: usize, failed: &Request, cause: Cause) {
        self.plan.failures.push(Failure {
            request,
            instance: failed.instance,
            cause,
        });
    }
}
