//! Nodes by free disk, in powers of two. Disk seldom decides, so it is a
//! filter and not a third dimension of the grid: for each power, the set of
//! nodes that have at least as much.

use super::Bits;
use crate::resources::MIB;

/// Powers of two of a MiB; the last means "as much or more".
const LEVELS: usize = 28;

#[derive(Clone, Debug)]
pub(crate) struct DiskIndex {
    /// At `n`: nodes whose level is above `n`, and how many they are.
    above: Vec<(Bits, usize)>,
    levels: Vec<u8>,
}

impl Default for DiskIndex {
    fn default() -> Self {
        Self {
            above: vec![(Bits::default(), 0); LEVELS],
            levels: Vec::new(),
        }
    }
}

/// How many powers of two fit: 0 below a MiB, 1 from 1 MiB, 2 from 2 MiB.
fn level(bytes: u64) -> u8 {
    let mib = bytes / MIB;
    mib.checked_ilog2()
        .map_or(0, |power| (power + 1).min(LEVELS as u32) as u8)
}

impl DiskIndex {
    /// Files a node under what it has free; `None` takes it out.
    pub(crate) fn put(&mut self, node: usize, free: Option<u64>) {
        if node >= self.levels.len() {
            self.levels.resize(node + 1, 0);
        }
        let new = free.map_or(0, level);
        let old = std::mem::replace(&mut self.levels[node], new);
        for (set, count) in &mut self.above[usize::from(old.min(new))..usize::from(old.max(new))] {
            set.put(node, new > old);
            *count = if new > old { *count + 1 } else { *count - 1 };
        }
    }

    /// The nodes that may have as much free, or `None` where that is no filter
    /// because all `ready` have.
    pub(crate) fn may_fit(&self, bytes: u64, ready: usize) -> Option<&Bits> {
        let below = usize::from(level(bytes)).checked_sub(1)?;
        let (set, count) = &self.above[below];
        (*count != ready).then_some(set)
    }
}
