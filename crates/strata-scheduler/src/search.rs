//! The best node for a request, by way of the indexes.
//!
//! Three steps. What is certain becomes one set of nodes: eligible, disk,
//! ports, hard affinity. What is wished splits that set into parts of known
//! worth: for each wish the nodes that meet it and those that do not, for each
//! spread one part per tier. The parts are searched from the most worth down,
//! and inside each the grid gives the best node. The first part that has one
//! ends the search.

use std::cmp::Reverse;

use crate::fleet::Fleet;
use crate::hash::fold;
use crate::index::{Bits, Cell, Found, Want, order};
use crate::judge::Judge;
use crate::rulebook::{Compiled, Group};
use crate::{Bond, InstanceId, Policy, Request, Resources, Score};

/// With more parts than this, every node is judged instead.
const PARTS: usize = 256;

/// Sets that are made for one search, kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    base: Bits,
    part: Bits,
}

/// A part of one wish: the nodes inside or outside a set, and their worth.
struct Part<'a> {
    worth: i64,
    set: &'a Bits,
    inside: bool,
}

struct Search<'a> {
    fleet: &'a Fleet,
    compiled: &'a Compiled,
    request: &'a Request,
    wanted: Resources,
    want: Want,
}

/// The best node for a request.
pub(crate) fn search(
    fleet: &Fleet,
    compiled: &Compiled,
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
        want: Want {
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
        let wishes = self.wishes();
        let parts: usize = wishes.iter().map(Vec::len).fold(1, usize::saturating_mul);
        if parts > PARTS {
            return self.judge_all();
        }
        self.best_part(&wishes, parts, scratch)
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
            match affinity.bond {
                Bond::Require if !group.starts_with(&compiled.rules) => {
                    filters.push((&group.occupied, true));
                }
                Bond::Forbid => filters.push((&group.occupied, false)),
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

    /// The parts of each wish.
    fn wishes(&self) -> Vec<Vec<Part<'a>>> {
        let rules = &self.compiled.rules;
        let (near, even) = self.compiled.groups.split_at(rules.affinities.len());
        let mut wishes = Vec::new();
        for (preference, nodes) in rules.preferences.iter().zip(&self.compiled.preferred) {
            wishes.push(in_or_out(i64::from(preference.weight), nodes));
        }
        for (affinity, group) in rules.affinities.iter().zip(near) {
            if let Bond::Prefer(weight) = affinity.bond {
                wishes.push(in_or_out(i64::from(weight), &group.occupied));
            }
        }
        for (spread, group) in rules.spreads.iter().zip(even) {
            wishes.push(tiers(spread.weight, spread.max_skew, group));
        }
        wishes
    }

    /// Every combination of one part of each wish, from the most worth down.
    fn best_part(
        &self,
        wishes: &[Vec<Part<'a>>],
        parts: usize,
        scratch: &mut Scratch,
    ) -> Option<(usize, Score)> {
        let pick = |number: usize| {
            let mut rest = number;
            wishes.iter().map(move |wish| {
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

    fn judge_all(&self) -> Option<(usize, Score)> {
        let judge = Judge {
            fleet: self.fleet,
            compiled: self.compiled,
            request: self.request,
        };
        let nodes = self.fleet.nodes.iter();
        let fitting = nodes.filter_map(|(node, slot)| Some((node, judge.judge(node, slot).ok()?)));
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

fn in_or_out(worth: i64, set: &Bits) -> Vec<Part<'_>> {
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
