//! The search for the best node in the grid.
//!
//! Cells are visited from the best to the worst. The first node of the first
//! cell that fits is the answer. In a cell that lies above the request in both
//! dimensions every node has the room, so normally one cell is visited.
//!
//! When a filter leaves few nodes, or the cells visited hold no node that fits,
//! checking the nodes one by one is cheaper than going on, and gives the same
//! answer.
//!
//! Invariants:
//! - A node is in exactly one cell: the one of its size class of free cpu and
//!   free memory. A class holds the amounts from its floor up to the next
//!   floor, so a node of a higher class in both dimensions has the cpu and the
//!   memory, a node of a lower class in either cannot fit, and only in an equal
//!   class does the amount decide. `fits` is called for every node all the
//!   same: the grid does not know disks, ports and GPUs.
//! - Cells are visited in the order of `packing`, which depends on the cell
//!   alone. So the first cell with a fitting node holds the best score, and the
//!   order within a cell (`order`, rotated by `start`) only breaks ties.
//! - The exhaustive path uses the same key (`packing`, then `order`), so both
//!   paths choose the same node. `tests/it/properties.rs` holds them against
//!   `feasibility`, the definition.

use std::ops::Range;

use super::bits::{count, ones};
use super::grid::Grid;
use super::size::{CLASSES, Cell};
use crate::Policy;

/// With fewer nodes than this left by a filter, each is checked.
const SMALL_CELL: usize = 192;
/// With more nodes than this left, it does not matter how many.
const LARGE_SET: usize = 512;
/// To visit a cell costs as much as to check so many nodes. A filter that goes
/// with the size of nodes ("no sibling there") can leave only large ones, and
/// the way to their cells is long.
const CELL: usize = 16;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchTarget {
    /// Nodes of lower classes cannot fit.
    pub(crate) cell: Cell,
    pub(crate) policy: Policy,
    /// Among equals the first from here on is taken, then from the beginning.
    pub(crate) start: usize,
}

/// The best node, and what makes it comparable with the best of another
/// search: higher packing first, then lower order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) node: usize,
    pub(crate) packing: i64,
    pub(crate) order: (bool, usize),
}

impl Found {
    pub(crate) fn beats(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| (self.packing, other.order) > (other.packing, self.order))
    }
}

/// How good a cell is for a policy; higher is better.
pub(crate) fn packing(policy: Policy, cell: Cell) -> i64 {
    match policy {
        Policy::BinPack => -cell.room(),
        Policy::Spread => cell.room(),
    }
}

/// The place of a node among equals; lower is first.
pub(crate) fn order(start: usize, node: usize) -> (bool, usize) {
    (node < start, node)
}

impl Grid {
    /// The best node that fits and is in the mask.
    pub(crate) fn best(
        &self,
        want: &SearchTarget,
        mask: Option<&[u64]>,
        fits: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let nodes = mask.map_or(self.ready(), |mask| count(mask, LARGE_SET));
        if let Some(mask) = mask
            && nodes <= SMALL_CELL
        {
            return self.best_of(want, ones(mask), fits);
        }
        let max_wait = nodes.min(LARGE_SET) / CELL + 1;
        let mut visit = Visit::new(self, want.cell);
        for _ in 0..max_wait {
            let cell = match want.policy {
                Policy::BinPack => visit.tightest(),
                Policy::Spread => visit.roomiest(),
            }?;
            if let Some(node) = self.first_in(cell, mask, want.start, &fits) {
                return Some(Found {
                    node,
                    packing: packing(want.policy, cell),
                    order: order(want.start, node),
                });
            }
        }
        match mask {
            Some(mask) => self.best_of(want, ones(mask), fits),
            None => self.best_of(want, self.nodes(), fits),
        }
    }

    fn best_of(
        &self,
        want: &SearchTarget,
        nodes: impl Iterator<Item = usize>,
        fits: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let mut best = None;
        for node in nodes {
            let Some(cell) = self.cell(node).filter(|cell| cell.covers(want.cell)) else {
                continue;
            };
            let found = Found {
                node,
                packing: packing(want.policy, cell),
                order: order(want.start, node),
            };
            if found.beats(best.as_ref()) && fits(node) {
                best = Some(found);
            }
        }
        best
    }

    fn first_in(
        &self,
        cell: Cell,
        mask: Option<&[u64]>,
        start: usize,
        fits: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let found = self.first_within(cell, mask, start..usize::MAX, fits);
        if found.is_some() || start == 0 {
            return found;
        }
        self.first_within(cell, mask, 0..start, fits)
    }

    fn first_within(
        &self,
        cell: Cell,
        mask: Option<&[u64]>,
        range: Range<usize>,
        fits: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let (cpu, memory) = (self.cpu.words(cell.cpu), self.memory.words(cell.memory));
        let summaries = self.cpu.summary(cell.cpu).iter();
        let summaries = summaries.zip(self.memory.summary(cell.memory)).enumerate();
        for (at, (one, other)) in summaries.skip(range.start / 4096) {
            for word in ones(&[one & other]).map(|bit| at * 64 + bit) {
                if word * 64 >= range.end {
                    return None;
                }
                let allowed = mask.map_or(u64::MAX, |mask| mask.get(word).copied().unwrap_or(0));
                let nodes = cpu[word] & memory[word] & allowed & within(&range, word);
                let fitting = ones(&[nodes])
                    .map(|bit| word * 64 + bit)
                    .find(|&node| fits(node));
                if fitting.is_some() {
                    return fitting;
                }
            }
        }
        None
    }
}

/// The bits of a word whose nodes are in the range.
fn within(range: &Range<usize>, word: usize) -> u64 {
    let below = |end: usize| match end.saturating_sub(word * 64) {
        bits @ 0..64 => (1_u64 << bits) - 1,
        _ => u64::MAX,
    };
    below(range.end) & !below(range.start)
}

/// Cells in the order of their value. Per row it remembers how far it came.
///
/// `Cell::room` grows with both classes and differs between any two cells. So
/// the next cell of a row is its first one that was not visited, from the low
/// end (`tightest`) or the high end (`roomiest`), and the next cell of all is
/// the best of these. Rows are compared from the same end: the best that a row
/// could hold bounds it and all rows after it, so a step ends at the first row
/// whose bound does not beat what was found. A row without cells left is
/// dropped from `rows` and not looked at again.
struct Visit<'a> {
    grid: &'a Grid,
    /// Rows that may have cells left.
    rows: u64,
    /// Per row, how many cells were visited, from the end that comes first.
    struck: [u8; CLASSES],
    /// Classes of memory that can do.
    enough: u64,
    least: Cell,
}

impl<'a> Visit<'a> {
    fn new(grid: &'a Grid, least: Cell) -> Self {
        Self {
            grid,
            rows: grid.used & (u64::MAX << least.cpu),
            struck: [0; CLASSES],
            enough: u64::MAX << least.memory,
            least,
        }
    }

    fn tightest(&mut self) -> Option<Cell> {
        let mut best: Option<(i64, Cell)> = None;
        let mut rows = self.rows;
        while rows != 0 {
            let row = rows.trailing_zeros() as usize;
            rows &= rows - 1;
            // Rows grow: from here on none can be tighter than this.
            let bound = Cell::new(row, usize::from(self.least.memory)).room();
            if best.is_some_and(|(room, _)| room <= bound) {
                break;
            }
            let left = self.grid.rows[row] & self.enough & above(self.struck[row]);
            if left == 0 {
                self.rows &= !(1 << row);
                continue;
            }
            let cell = Cell::new(row, left.trailing_zeros() as usize);
            if best.is_none_or(|(room, _)| cell.room() < room) {
                best = Some((cell.room(), cell));
            }
        }
        let (_, cell) = best?;
        self.struck[usize::from(cell.cpu)] = cell.memory + 1;
        Some(cell)
    }

    fn roomiest(&mut self) -> Option<Cell> {
        let mut best: Option<(i64, Cell)> = None;
        let mut rows = self.rows;
        while rows != 0 {
            let row = CLASSES - 1 - rows.leading_zeros() as usize;
            rows &= !(1 << row);
            // Rows shrink: from here on none can be roomier than this.
            let bound = Cell::new(row, CLASSES - 1).room();
            if best.is_some_and(|(room, _)| room >= bound) {
                break;
            }
            let left = self.grid.rows[row] & self.enough & above(self.struck[row]).reverse_bits();
            if left == 0 {
                self.rows &= !(1 << row);
                continue;
            }
            let cell = Cell::new(row, CLASSES - 1 - left.leading_zeros() as usize);
            if best.is_none_or(|(room, _)| cell.room() > room) {
                best = Some((cell.room(), cell));
            }
        }
        let (_, cell) = best?;
        self.struck[usize::from(cell.cpu)] = CLASSES as u8 - cell.memory;
        Some(cell)
    }
}

/// All bits but the lowest `struck`.
fn above(struck: u8) -> u64 {
    u64::MAX.checked_shl(u32::from(struck)).unwrap_or(0)
}
