//! The best node for a request, by way of the indexes.
//!
//! Three steps. Hard rules become one set of nodes: eligible, disk, ports, hard
//! affinity. Preferences split that set into parts of known worth: for each
//! preference the nodes that meet it and those that do not, for each spread one
//! part per tier. The parts are searched from the most worth down, and inside
//! each the grid gives the best node. The first part that has one ends the
//! search, but for parts of the same worth: among those the better node wins.

use std::cmp::Reverse;

use crate::compiled_rules::{CompiledRuleSet, Group};
use crate::feasibility::Feasibility;
use crate::fleet::Fleet;
use crate::hash::fold;
use crate::index::{Bits, Cell, Found, SearchTarget, order};
use crate::{AffinityMode, InstanceId, Policy, Request, Resources, Score};

/// With more parts than this, the feasibility of every node is checked instead.
const PARTS: usize = 256;

/// Sets that are made for one search, kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    base: Bits,
    part: Bits,
}

/// A part of one request: the nodes inside or outside a set, and their worth.
struct Part<'a> {
    worth: i64,
    set: &'a Bits,
    inside: bool,
}

struct Search<'a> {
    fleet: &'a Fleet,
    compiled: &'a CompiledRuleSet,
    request: &'a Request,
    wanted: Resources,
    want: SearchTarget,
}

/// The best node for a request.
pub(crate) fn search(
    fleet: &Fleet,
    compiled: &CompiledRuleSet,
    request: &Request,
    scratch: &mut Scratch,
) -> Option<(usize, Score)> {
    let wanted = request.resources.clamped();
    let policy = request.rules.policy.unwrap_or(fleet.settings.policy);
    let search = Search {
        fleet,
        compiled,
        request,
        wanted,
        want: SearchTarget {
            cell: Cell::of(&wanted),
            policy,
            start: start(fleet, policy, request),
        },
    };
    search.run(scratch)
}

/// Where equals are counted from: the beginning when packing, so that the same
/// nodes fill up; anywhere when spreading, so that none is crowded.
pub(crate) fn start(fleet: &Fleet, policy: Policy, request: &Request) -> usize {
    match policy {
        Policy::BinPack => 0,
        Policy::Spread => {
            let InstanceId(id) = request.instance;
            let drawn = fold(fold(fleet.settings.seed ^ id as u64) ^ (id >> 64) as u64);
            // A multiplication instead of a division: nodes × drawn / 2^64.
            ((u128::from(drawn) * fleet.nodes.end() as u128) >> 64) as usize
        }
    }
}

impl<'a> Search<'a> {
    fn run(&self, scratch: &mut Scratch) -> Option<(usize, Score)> {
        let filters = self.filters();
        if self.compiled.is_plain() {
            let found = match filters.as_slice() {
                [] => self.best(None),
                [(set, true)] => self.best(Some(set.words())),
                _ => {
                    self.intersect(&filters, &mut scratch.base);
                    self.best(Some(scratch.base.words()))
                }
            };
            return found.map(|found| scored(0, found));
        }
        self.intersect(&filters, &mut scratch.base);
        let preference_weights = self.preference_weights();
        let parts: usize = preference_weights
            .iter()
            .map(Vec::len)
            .fold(1, usize::saturating_mul);
        if parts > PARTS {
            return self.check_all();
        }
        self.best_part(&preference_weights, parts, scratch)
    }

    fn best(&self, mask: Option<&[u64]>) -> Option<Found> {
        let grid = &self.fleet.grid;
        let rules = &self.request.rules;
        if rules.gpus.is_none() && rules.ports.is_empty() {
            return grid.best(&self.want, mask, |node| {
                self.wanted.fits_in(&self.fleet.free[node])
            });
        }
        grid.best(&self.want, mask, |node| self.fits(node))
    }

    fn fits(&self, node: usize) -> bool {
        let rules = &self.request.rules;
        self.wanted.fits_in(&self.fleet.free[node])
            && self.fleet.nodes.get(node).is_some_and(|slot| {
                let gpus = rules.gpus.as_ref();
                gpus.is_none_or(|demand| slot.gpu_for(demand).is_some())
                    && rules.ports.iter().all(|&port| slot.holder(port).is_none())
            })
    }

    /// Sets that a node must be in, or must not be in.
    fn filters(&self) -> Vec<(&'a Bits, bool)> {
        let (fleet, compiled) = (self.fleet, self.compiled);
        let ready = fleet.grid.ready();
        let mut filters = Vec::new();
        if compiled.usable != ready {
            filters.push((&compiled.eligible, true));
        }
        if let Some(nodes) = fleet.disks.may_fit(self.wanted.disk, ready) {
            filters.push((nodes, true));
        }
        for &port in &compiled.rules.ports {
            filters.extend(fleet.ports.taken(port).map(|nodes| (nodes, false)));
        }
        for (affinity, group) in compiled.rules.affinities.iter().zip(&compiled.groups) {
            match affinity.mode {
                AffinityMode::Require if !group.starts_with(&compiled.rules) => {
                    filters.push((&group.occupied, true));
                }
                AffinityMode::Forbid => filters.push((&group.occupied, false)),
                _ => {}
            }
        }
        filters
    }

    fn intersect(&self, filters: &[(&Bits, bool)], base: &mut Bits) {
        base.copy_from(self.fleet.nodes.ready());
        for (set, inside) in filters {
            base.cut(set, *inside);
        }
    }

    /// The parts of each request.
    fn preference_weights(&self) -> Vec<Vec<Part<'a>>> {
        let rules = &self.compiled.rules;
        let (near, even) = self.compiled.groups.split_at(rules.affinities.len());
        let mut preference_weights = Vec::new();
        for (preference, nodes) in rules.preferences.iter().zip(&self.compiled.preferred) {
            preference_weights.push(filter_polarity(i64::from(preference.weight), nodes));
        }
        for (affinity, group) in rules.affinities.iter().zip(near) {
            if let AffinityMode::Prefer(weight) = affinity.mode {
                preference_weights.push(filter_polarity(i64::from(weight), &group.occupied));
            }
        }
        for (spread, group) in rules.spreads.iter().zip(even) {
            preference_weights.push(tiers(spread.weight, spread.max_skew, group));
        }
        preference_weights
    }

    /// Every combination of one part of each preference, from the most worth
    /// down. Combinations are numbered in mixed radix: digit by digit the part
    /// of each preference. They are disjoint, so a node is found in one only.
    /// The loop ends at the first combination of less worth than the best one
    /// found; so `beats`, which does not know the worth, only ever compares
    /// nodes of equal worth.
    fn best_part(
        &self,
        preference_weights: &[Vec<Part<'a>>],
        parts: usize,
        scratch: &mut Scratch,
    ) -> Option<(usize, Score)> {
        let pick = |number: usize| {
            let mut rest = number;
            preference_weights.iter().map(move |wish| {
                let part = &wish[rest % wish.len()];
                rest /= wish.len();
                part
            })
        };
        let worth = |number| pick(number).fold(0_i64, |sum, part| sum.saturating_add(part.worth));
        let mut order: Vec<(Reverse<i64>, usize)> = (0..parts)
            .map(|number| (Reverse(worth(number)), number))
            .collect();
        order.sort_unstable();
        let mut best: Option<(i64, Found)> = None;
        for (Reverse(worth), number) in order {
            if best.as_ref().is_some_and(|(found, _)| *found > worth) {
                break;
            }
            scratch.part.copy_from(&scratch.base);
            for part in pick(number) {
                scratch.part.cut(part.set, part.inside);
            }
            if let Some(found) = self.best(Some(scratch.part.words()))
                && found.beats(best.as_ref().map(|(_, found)| found))
            {
                best = Some((worth, found));
            }
        }
        best.map(|(worth, found)| scored(worth, found))
    }

    fn check_all(&self) -> Option<(usize, Score)> {
        let feasibility = Feasibility {
            fleet: self.fleet,
            compiled: self.compiled,
            request: self.request,
        };
        let nodes = self.fleet.nodes.iter();
        let fitting =
            nodes.filter_map(|(node, slot)| Some((node, feasibility.check(node, slot).ok()?)));
        fitting.max_by_key(|(node, score)| (*score, Reverse(order(self.want.start, *node))))
    }
}

fn scored(preference: i64, found: Found) -> (usize, Score) {
    let packing = found.packing;
    (
        found.node,
        Score {
            preference,
            packing,
        },
    )
}

fn filter_polarity(worth: i64, set: &Bits) -> Vec<Part<'_>> {
    let part = |worth, inside| Part { worth, set, inside };
    vec![part(worth, true), part(0, false)]
}

fn tiers(weight: u32, max_skew: Option<u32>, group: &Group) -> Vec<Part<'_>> {
    let allowed = |count| max_skew.is_none_or(|skew| group.allows(skew, count));
    let tiers = group.tiers.iter().filter(|tier| allowed(tier.count));
    let mut parts: Vec<_> = tiers
        .map(|tier| Part {
            worth: group.evenness(weight, Some(tier.count)),
            set: &tier.nodes,
            inside: true,
        })
        .collect();
    if max_skew.is_none() && group.homeless {
        parts.push(Part {
            worth: group.evenness(weight, None),
            set: &group.somewhere,
            inside: false,
        });
    }
    parts
}
