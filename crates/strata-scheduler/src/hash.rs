//! A hash for keys that no caller chooses: ids and addresses.
//!
//! One multiplication per word, folded. Every placement looks up an instance
//! and its rules; the hash of the standard library, made for keys that an
//! attacker may choose, would be a tenth of the whole.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

#[derive(Clone, Copy, Default)]
pub(crate) struct FoldHasher(u64);

/// An odd constant with bits all over: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64((word >> 64) as u64);
        self.write_u64(word as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// High and low half of the product, so that every bit counts in every bit.
pub(crate) fn fold(word: u64) -> u64 {
    let product = u128::from(word ^ SPREAD) * u128::from(SPREAD);
    (product >> 64) as u64 ^ product as u64
}
