//! The ready nodes in a grid of size classes: free cpu by free memory.
//!
//! For each class of cpu, and each of memory, a set of nodes; a cell of the
//! grid is the intersection of two. Counts per cell and a mask per row report
//! which cells hold anything, so a search steps from one cell that matters to
//! the next. Moving a node costs a few bits. Sets, not lists: the order inside
//! a cell is the order of nodes whatever happened before, so a fleet built
//! again decides as the old one did.

use super::size::{CLASSES, Cell};

/// Of nodes that are not in the grid.
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(super) cpu: Sets,
    pub(super) memory: Sets,
    counts: Vec<u32>,
    /// Per class of cpu, the classes of memory that have nodes.
    pub(super) rows: Vec<u64>,
    /// The classes of cpu that have nodes.
    pub(super) used: u64,
    /// The cell of each node.
    cells: Vec<u16>,
    ready: usize,
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            cpu: Sets::default(),
            memory: Sets::default(),
            counts: vec![0; CLASSES * CLASSES],
            rows: vec![0; CLASSES],
            used: 0,
            cells: Vec::new(),
            ready: 0,
        }
    }
}

impl Grid {
    /// How many nodes are in it.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    pub(crate) fn cell(&self, node: usize) -> Option<Cell> {
        let number = *self.cells.get(node)?;
        (number != NOWHERE).then(|| Cell::from_number(number))
    }

    /// Every node of the grid, in order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        let cells = self.cells.iter().enumerate();
        cells.filter_map(|(node, &cell)| (cell != NOWHERE).then_some(node))
    }

    /// Puts a node where it belongs, from wherever it was; `None` takes it out.
    pub(crate) fn put(&mut self, node: usize, cell: Option<Cell>) {
        if node >= self.cells.len() {
            self.cells.resize(node + 1, NOWHERE);
            self.cpu.grow(node + 1);
            self.memory.grow(node + 1);
        }
        let new = cell.map_or(NOWHERE, |cell| cell.number() as u16);
        let old = std::mem::replace(&mut self.cells[node], new);
        if old == new {
            return;
        }
        if old != NOWHERE {
            self.take_out(node, Cell::from_number(old));
        }
        if let Some(cell) = cell {
            self.put_in(node, cell);
        }
    }

    fn take_out(&mut self, node: usize, cell: Cell) {
        self.ready -= 1;
        self.cpu.clear(cell.cpu, node);
        self.memory.clear(cell.memory, node);
        let count = &mut self.counts[cell.number()];
        *count -= 1;
        if *count == 0 {
            let row = &mut self.rows[usize::from(cell.cpu)];
            *row &= !(1 << cell.memory);
            if *row == 0 {
                self.used &= !(1 << cell.cpu);
            }
        }
    }

    fn put_in(&mut self, node: usize, cell: Cell) {
        self.ready += 1;
        self.cpu.set(cell.cpu, node);
        self.memory.set(cell.memory, node);
        self.counts[cell.number()] += 1;
        self.rows[usize::from(cell.cpu)] |= 1 << cell.memory;
        self.used |= 1 << cell.cpu;
    }
}

/// One set of nodes per class, and per set a summary with a bit for each of
/// its words that is not empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    words: Vec<u64>,
    summaries: Vec<u64>,
    /// Words of one set.
    width: usize,
    /// Words of one summary.
    summary_width: usize,
}

impl Sets {
    pub(super) fn set(&mut self, class: u8, node: usize) {
        let word = node / 64;
        self.words[usize::from(class) * self.width + word] |= 1 << (node % 64);
        self.summaries[usize::from(class) * self.summary_width + word / 64] |= 1 << (word % 64);
    }

    pub(super) fn clear(&mut self, class: u8, node: usize) {
        let at = node / 64;
        let word = &mut self.words[usize::from(class) * self.width + at];
        *word &= !(1 << (node % 64));
        if *word == 0 {
            self.summaries[usize::from(class) * self.summary_width + at / 64] &= !(1 << (at % 64));
        }
    }

    pub(super) fn words(&self, class: u8) -> &[u64] {
        &self.words[usize::from(class) * self.width..][..self.width]
    }

    pub(super) fn summary(&self, class: u8) -> &[u64] {
        &self.summaries[usize::from(class) * self.summary_width..][..self.summary_width]
    }

    /// Doubles the width when it is too small, so that growing is rare.
    fn grow(&mut self, nodes: usize) {
        if nodes <= self.width * 64 {
            return;
        }
        let width = nodes.div_ceil(64).next_power_of_two();
        let mut words = vec![0; CLASSES * width];
        for class in 0..CLASSES {
            words[class * width..][..self.width]
                .copy_from_slice(&self.words[class * self.width..][..self.width]);
        }
        let summary_width = width.div_ceil(64);
        let mut summaries = vec![0; CLASSES * summary_width];
        for class in 0..CLASSES {
            for (at, _) in words[class * width..][..width]
                .iter()
                .enumerate()
                .filter(|(_, word)| **word != 0)
            {
                summaries[class * summary_width + at / 64] |= 1 << (at % 64);
            }
        }
        *self = Self {
            words,
            summaries,
            width,
            summary_width,
        };
    }
}
