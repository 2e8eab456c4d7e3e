//! Size classes: amounts rounded down to four steps per doubling.
//!
//! Placement ranks nodes by the class of what they have free, not by the last
//! byte. Rounding is what makes the best node findable without looking at all
//! of them, and since the score itself is defined on classes, the node that
//! the index finds is exactly the best, not about the best.

use crate::Resources;
use crate::resources::MIB;

/// Classes per dimension: as many as a `u64` has bits.
pub(crate) const CLASSES: usize = 64;

/// Steps of one class are eight thousandths of a core...
const CPU_UNIT: u64 = 8;
/// ... and 32 MiB: a core weighs as much as 4 GiB, about what machines have.
const MEMORY_UNIT: u64 = 32 * MIB;

/// The smallest amount of each class, in units.
const FLOORS: [u32; CLASSES] = {
    let mut floors = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        floors[class] = if class < 4 {
            class as u32
        } else {
            (4 + class as u32 % 4) << (class / 4 - 1)
        };
        class += 1;
    }
    floors
};

fn class(units: u64) -> u8 {
    if units < 4 {
        return units as u8;
    }
    let doubling = u64::from(units.ilog2());
    let step = (units >> (doubling - 2)) & 3;
    (4 * (doubling - 1) + step).min(CLASSES as u64 - 1) as u8
}

/// The classes of cpu and memory together: where a node stands in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) cpu: u8,
    pub(crate) memory: u8,
}

impl Cell {
    pub(crate) fn of(free: &Resources) -> Self {
        Self {
            cpu: class(free.cpu / CPU_UNIT),
            memory: class(free.memory / MEMORY_UNIT),
        }
    }

    pub(crate) fn new(cpu: usize, memory: usize) -> Self {
        Self {
            cpu: cpu as u8,
            memory: memory as u8,
        }
    }

    /// Its number, below `CLASSES * CLASSES`.
    pub(crate) fn number(self) -> usize {
        usize::from(self.cpu) * CLASSES + usize::from(self.memory)
    }

    pub(crate) fn from_number(number: u16) -> Self {
        Self::new(usize::from(number) / CLASSES, usize::from(number) % CLASSES)
    }

    /// How much room there is: the sum of both floors. The number of the cell
    /// is below it, so that no two cells are equal.
    pub(crate) fn room(self) -> i64 {
        let sum = FLOORS[usize::from(self.cpu)] + FLOORS[usize::from(self.memory)];
        i64::from(sum) << 12 | self.number() as i64
    }

    /// Whether nodes here can have as much as nodes of `wanted`.
    pub(crate) fn covers(self, wanted: Self) -> bool {
        self.cpu >= wanted.cpu && self.memory >= wanted.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_class_covers_its_floor_up_to_the_next() {
        for units in (0..4096).chain([70_000, 120_000, 131_071]) {
            let class = usize::from(class(units));
            assert!(u64::from(FLOORS[class]) <= units, "{units}");
            if class + 1 < CLASSES {
                assert!(u64::from(FLOORS[class + 1]) > units, "{units}");
            }
        }
        assert_eq!(class(u64::MAX), 63);
    }

    #[test]
    fn size_class_grows_with_free_resources() {
        assert!(Cell::new(40, 41).room() > Cell::new(40, 40).room());
        assert!(Cell::new(41, 40).room() > Cell::new(40, 40).room());
        assert_ne!(Cell::new(41, 40).room(), Cell::new(40, 41).room());
    }
}
