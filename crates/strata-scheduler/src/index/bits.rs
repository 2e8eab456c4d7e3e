//! A set of nodes, one bit each. 10,000 nodes are 157 words: two such sets are
//! intersected faster than a hash is looked up.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// Empty, with room for as many nodes as there are.
    pub(crate) fn with_room(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// Makes room for as many nodes. Never shrinks.
    pub(crate) fn grow(&mut self, nodes: usize) {
        let words = nodes.div_ceil(64);
        if words > self.0.len() {
            self.0.resize(words, 0);
        }
    }

    pub(crate) fn set(&mut self, node: usize) {
        self.grow(node + 1);
        self.0[node / 64] |= 1 << (node % 64);
    }

    pub(crate) fn clear(&mut self, node: usize) {
        if let Some(word) = self.0.get_mut(node / 64) {
            *word &= !(1 << (node % 64));
        }
    }

    pub(crate) fn put(&mut self, node: usize, value: bool) {
        if value {
            self.set(node);
        } else {
            self.clear(node);
        }
    }

    pub(crate) fn has(&self, node: usize) -> bool {
        self.0
            .get(node / 64)
            .is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    pub(crate) fn count(&self) -> usize {
        count(&self.0, usize::MAX)
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        let common = self.0.len().min(other.0.len());
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
        self.0[common..].fill(0);
    }

    pub(crate) fn remove(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Keeps what is inside of the other set, or what is outside.
    pub(crate) fn cut(&mut self, other: &Self, inside: bool) {
        if inside {
            self.keep(other);
        } else {
            self.remove(other);
        }
    }

    /// Adds what two sets have in common.
    pub(crate) fn add_both(&mut self, one: &Self, other: &Self) {
        self.grow(one.0.len().min(other.0.len()) * 64);
        for (word, (one, other)) in self.0.iter_mut().zip(one.0.iter().zip(&other.0)) {
            *word |= one & other;
        }
    }

    /// Removes what two sets have in common.
    pub(crate) fn remove_both(&mut self, one: &Self, other: &Self) {
        for (word, (one, other)) in self.0.iter_mut().zip(one.0.iter().zip(&other.0)) {
            *word &= !(one & other);
        }
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .any(|(one, other)| one & other != 0)
    }

    pub(crate) fn ones(&self) -> impl Iterator<Item = usize> {
        ones(&self.0)
    }
}

/// How many bits are set; it stops to count once they are more than `enough`.
pub(crate) fn count(words: &[u64], enough: usize) -> usize {
    let mut count = 0;
    for word in words {
        count += word.count_ones() as usize;
        if count > enough {
            break;
        }
    }
    count
}

pub(crate) fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(at * 64 + bit)
        })
    })
}
