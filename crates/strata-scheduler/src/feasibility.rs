//! One node against one request, plainly: the score, or the first reason
//! against it.
//!
//! This is the definition that the search must agree with. It is slow, for it
//! checks one node at a time, and it is used when a caller wants to know why.

use crate::compiled_rules::CompiledRuleSet;
use crate::fleet::{Fleet, Slot};
use crate::index::packing;
use crate::{
    AffinityMode, Constraint, NodeState, POOL_LABEL, Policy, Reason, ReasonCount, Request,
    Resources, Score,
};

/// How many nodes are named per reason.
const MAX_EXAMPLES: usize = 3;

pub(crate) struct Feasibility<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) compiled: &'a CompiledRuleSet,
    pub(crate) request: &'a Request,
}

impl Feasibility<'_> {
    pub(crate) fn policy(&self) -> Policy {
        self.request
            .rules
            .policy
            .unwrap_or(self.fleet.settings.policy)
    }

    pub(crate) fn check(&self, node: usize, slot: &Slot) -> Result<Score, Reason> {
        match slot.state {
            NodeState::Ready => {}
            NodeState::Draining => return Err(Reason::Draining),
            NodeState::Lost => return Err(Reason::Lost),
            NodeState::Starting => return Err(Reason::Starting),
            NodeState::StatusOnly => return Err(Reason::StatusOnly),
        }
        self.check_constraints(slot)?;
        self.size(node, slot)?;
        self.ports(slot)?;
        self.check_affinity(node)?;
        let cell = self.fleet.grid.cell(node).ok_or(Reason::Lost)?;
        Ok(Score {
            preference: self.preference(node),
            packing: packing(self.policy(), cell),
        })
    }

    fn check_constraints(&self, slot: &Slot) -> Result<(), Reason> {
        let rules = &self.request.rules;
        if !slot.spec.runs.contains(&rules.kind) {
            return Err(Reason::WrongKind(rules.kind));
        }
        for test in &rules.constraints {
            if !test.met_by(&slot.spec.name, &slot.spec.labels) {
                return Err(match test {
                    Constraint::Exists(label) if label == POOL_LABEL => Reason::NoPool,
                    test => Reason::Constraint(test.to_string()),
                });
            }
        }
        match &rules.gpus {
            Some(demand) if slot.gpus_owned(demand) < demand.count => Err(Reason::NoSuchGpus {
                short: demand.count - slot.gpus_owned(demand),
            }),
            _ => Ok(()),
        }
    }

    fn size(&self, node: usize, slot: &Slot) -> Result<(), Reason> {
        let wanted = self.request.resources.clamped();
        if wanted.fits_in(&slot.free())
            && let Some(left) = self.fleet.left_of_host(node)
            && !wanted.fits_in(&left)
        {
            return Err(Reason::Host);
        }
        let short = wanted.minus(&slot.free());
        let by_reservations = wanted.minus(&slot.unreserved());
        let Resources { cpu, memory, disk } = short;
        if cpu > 0 {
            let measured = by_reservations.cpu == 0;
            return Err(Reason::Cpu {
                short: cpu,
                measured,
            });
        }
        if memory > 0 {
            let measured = by_reservations.memory == 0;
            return Err(Reason::Memory {
                short: memory,
                measured,
            });
        }
        if disk > 0 {
            let measured = by_reservations.disk == 0;
            return Err(Reason::Disk {
                short: disk,
                measured,
            });
        }
        match &self.request.rules.gpus {
            Some(demand) if slot.gpu_for(demand).is_none() => Err(Reason::Gpus {
                short: demand.count - slot.gpus_free(demand),
            }),
            _ => Ok(()),
        }
    }

    fn ports(&self, slot: &Slot) -> Result<(), Reason> {
        for &port in &self.request.rules.ports {
            if let Some(holder) = slot.holder(port) {
                let holder = holder.and_then(|place| self.fleet.instances.get(place));
                let holder = holder.map(|instance| instance.id);
                return Err(Reason::Port { port, holder });
            }
        }
        Ok(())
    }

    fn check_affinity(&self, node: usize) -> Result<(), Reason> {
        let rules = &self.request.rules;
        let (near, even) = self.compiled.groups.split_at(rules.affinities.len());
        for (affinity, group) in rules.affinities.iter().zip(near) {
            let there = group.domain_count(node).is_some_and(|count| count > 0);
            match affinity.mode {
                AffinityMode::Require if !there && !group.starts_with(rules) => {
                    return Err(Reason::AffinityUnmet(affinity.to.to_string()));
                }
                AffinityMode::Forbid if there => {
                    return Err(Reason::AntiAffinityViolated(affinity.to.to_string()));
                }
                _ => {}
            }
        }
        for (spread, group) in rules.spreads.iter().zip(even) {
            let Some(skew) = spread.max_skew else {
                continue;
            };
            let over = spread.over.to_string();
            let Some(count) = group.domain_count(node) else {
                return Err(Reason::NoDomain(over));
            };
            if !group.allows(skew, count) {
                let least = group.least();
                return Err(Reason::Skew { over, count, least });
            }
        }
        Ok(())
    }

    fn preference(&self, node: usize) -> i64 {
        let rules = &self.request.rules;
        let (near, even) = self.compiled.groups.split_at(rules.affinities.len());
        let mut sum = 0_i64;
        for (preference, nodes) in rules.preferences.iter().zip(&self.compiled.preferred) {
            sum += if nodes.has(node) {
                i64::from(preference.weight)
            } else {
                0
            };
        }
        for (affinity, group) in rules.affinities.iter().zip(near) {
            if let AffinityMode::Prefer(weight) = affinity.mode
                && group.domain_count(node).is_some_and(|count| count > 0)
            {
                sum = sum.saturating_add(i64::from(weight));
            }
        }
        for (spread, group) in rules.spreads.iter().zip(even) {
            sum = sum.saturating_add(group.evenness(spread.weight, group.domain_count(node)));
        }
        sum
    }

    /// The first reasons against all nodes, by sort.
    pub(crate) fn summary(&self) -> Vec<ReasonCount> {
        let mut counts: Vec<ReasonCount> = Vec::new();
        for (node, slot) in self.fleet.nodes.iter() {
            let Err(reason) = self.check(node, slot) else {
                continue;
            };
            let name = &slot.spec.name;
            match counts
                .iter_mut()
                .find(|count| count.reason.is_like(&reason))
            {
                None => counts.push(ReasonCount {
                    reason,
                    nodes: 1,
                    examples: vec![name.clone()],
                }),
                Some(count) => {
                    count.nodes += 1;
                    if reason.distance() < count.reason.distance() {
                        count.reason = reason;
                        count.examples.insert(0, name.clone());
                        count.examples.truncate(MAX_EXAMPLES);
                    } else if count.examples.len() < MAX_EXAMPLES {
                        count.examples.push(name.clone());
                    }
                }
            }
        }
        counts.sort_by_key(|count| std::cmp::Reverse(count.nodes));
        counts
    }
}
