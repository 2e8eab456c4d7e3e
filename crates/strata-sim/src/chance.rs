//! Randomness of one seed. Each part of the simulation has a stream of its own,
//! so that one more decision in one of them changes no other.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The next number of a stream: SplitMix64.
pub(crate) fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A stream of random numbers.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<u64>);

impl Chance {
    /// The stream of this name of a seed.
    pub(crate) fn of(seed: u64, name: &str) -> Self {
        let mut state = seed;
        for byte in name.bytes() {
            state = step(&mut state) ^ u64::from(byte);
        }
        Self(Mutex::new(state))
    }

    pub(crate) fn next(&self) -> u64 {
        step(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn index(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub(crate) fn one_in(&self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    pub(crate) fn millis(&self, range: RangeInclusive<u64>) -> Duration {
        let (from, to) = range.into_inner();
        Duration::from_micros(from * 1000 + self.below((to - from) * 1000 + 1))
    }

    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.index(of.len())])
    }
}
