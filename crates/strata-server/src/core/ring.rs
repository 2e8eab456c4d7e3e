//! Nodes in the order of a hash of their names, as a ring. Neighbours on it are
//! of different racks and sites, however nodes are named, and a node that comes
//! or goes changes the neighbours of a few alone.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Ring(BTreeSet<(u64, String)>);

impl Ring {
    pub(crate) fn insert(&mut self, name: &str) {
        self.0.insert(place(name));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(&place(name));
    }

    /// The neighbours of a node, this many on either side, among those that
    /// `counts` holds for. It is mutual: where the same ones count, a node is a
    /// neighbour of each of its neighbours.
    pub(crate) fn neighbours(
        &self,
        name: &str,
        on_each_side: usize,
        counts: impl Fn(&str) -> bool,
    ) -> BTreeSet<&str> {
        let own = place(name);
        let counts = |one: &&(u64, String)| one.1 != name && counts(&one.1);
        let after = self.0.range(&own..).chain(self.0.range(..&own));
        let before = self.0.range(..&own).rev();
        let before = before.chain(self.0.range(&own..).rev());
        let both = after
            .filter(counts)
            .take(on_each_side)
            .chain(before.filter(counts).take(on_each_side));
        both.map(|(_, name)| name.as_str()).collect()
    }
}

/// Where a node is: the same on every server.
fn place(name: &str) -> (u64, String) {
    let [a, b, c, d, e, f, g, h, ..] = strata_identity::hmac_sha256(b"ring", name.as_bytes());
    let hash = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    (hash, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(nodes: usize) -> Ring {
        let mut ring = Ring::default();
        (0..nodes).for_each(|number| ring.insert(&format!("n{number}")));
        ring
    }

    #[test]
    fn neighbours_are_mutual_and_as_many_as_there_are() {
        let ring = ring(100);
        let counts = |name: &str| !name.ends_with('7');
        for number in (0..100).filter(|number| number % 10 != 7) {
            let name = format!("n{number}");
            let known = ring.neighbours(&name, 8, counts);
            assert_eq!(known.len(), 16);
            assert!(!known.contains(&*name));
            for other in known {
                assert!(counts(other), "{other}");
                assert!(ring.neighbours(other, 8, counts).contains(&*name));
            }
        }
        assert_eq!(self::ring(5).neighbours("n1", 8, |_| true).len(), 4);
        assert!(self::ring(1).neighbours("n0", 8, |_| true).is_empty());
    }

    #[test]
    fn node_that_comes_or_goes_changes_few_neighbourhoods() {
        let mut ring = ring(200);
        let all = |ring: &Ring| -> Vec<BTreeSet<String>> {
            let owned = |known: BTreeSet<&str>| known.into_iter().map(Into::into).collect();
            (0..200)
                .map(|number| owned(ring.neighbours(&format!("n{number}"), 8, |_| true)))
                .collect()
        };
        let before = all(&ring);
        ring.insert("new");
        let during = all(&ring);
        let changed = before
            .iter()
            .zip(&during)
            .filter(|(one, other)| one != other);
        assert_eq!(changed.count(), 16);
        ring.remove("new");
        assert_eq!(before, all(&ring));
    }
}
