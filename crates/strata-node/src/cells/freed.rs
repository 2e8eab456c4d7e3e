//! The names of cells that were freed, so that freeing twice is told apart
//! from freeing what never was. Bounded: the oldest are forgotten.

use std::collections::{HashSet, VecDeque};

use strata_types::CellName;

/// How many names are remembered.
const MOST: usize = 65_536;

#[derive(Default)]
pub(super) struct FreedNames {
    known: HashSet<CellName>,
    oldest_first: VecDeque<CellName>,
}

impl FreedNames {
    pub(super) fn contains(&self, name: &CellName) -> bool {
        self.known.contains(name)
    }

    pub(super) fn add(&mut self, name: &CellName) {
        if !self.known.insert(name.clone()) {
            return;
        }
        self.oldest_first.push_back(name.clone());
        if self.oldest_first.len() > MOST
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_names_are_forgotten_first() {
        let name = |i: usize| format!("c{i}").parse::<CellName>().unwrap();
        let mut freed = FreedNames::default();
        for i in 0..MOST + 10 {
            freed.add(&name(i));
            freed.add(&name(i));
        }
        assert!(!freed.contains(&name(9)));
        assert!(freed.contains(&name(10)));
        assert_eq!(freed.known.len(), MOST);
    }
}
