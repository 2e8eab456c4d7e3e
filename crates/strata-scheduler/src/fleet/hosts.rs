//! Nodes that share one host: the host's own node, and those nested in it.
//!
//! The host is counted once. Each node of the group offers what it has itself,
//! and no more than is left of the host:
//!
//! ```text
//! left(host)   = promised(host) − reserved(host) − Σ taken(nested)
//! free(nested) = min(what it has free itself, left(host))
//! ```
//!
//! A nested node takes of its host what its instances reserve. One that is
//! dedicated takes all that it offers, for there are other things on it than
//! instances, or a kernel that keeps what it was given.

use super::{Fleet, Slot};
use crate::Resources;

impl Fleet {
    /// The host that a node is on, where others are too.
    fn host_of(&self, node: usize) -> Option<usize> {
        if self.nested.is_empty() {
            return None;
        }
        let slot = self.nodes.get(node)?;
        match &slot.spec.host {
            Some(host) => self.nodes.named(host).filter(|host| *host != node),
            None => self.nested.contains_key(&slot.spec.name).then_some(node),
        }
    }

    /// What is left of the host that a node shares with others; none where it
    /// shares it with none, or has a part of its own.
    pub(crate) fn left_of_host(&self, node: usize) -> Option<Resources> {
        let host = self.host_of(node)?;
        if self.nodes.get(node)?.spec.dedicated && host != node {
            return None;
        }
        let slot = self.nodes.get(host)?;
        let mut left = slot.unreserved();
        for nested in self.nested.get(&slot.spec.name).into_iter().flatten() {
            left.subtract(&self.nodes.get(*nested).map_or(Resources::NONE, Slot::taken));
        }
        Some(left)
    }

    /// All nodes that share a host with this one.
    pub(crate) fn neighbours(&self, node: usize) -> Vec<usize> {
        let Some(host) = self.host_of(node) else {
            return Vec::new();
        };
        let name = self.nodes.get(host).map(|slot| &slot.spec.name);
        let nested = name.and_then(|name| self.nested.get(name));
        let all = nested.into_iter().flatten().copied().chain([host]);
        all.filter(|other| *other != node).collect()
    }

    /// Takes note of the host that a node is nested in.
    pub(crate) fn nest(&mut self, node: usize) {
        if let Some(host) = self.nodes.get(node).and_then(|slot| slot.spec.host.clone()) {
            self.nested.entry(host).or_default().push(node);
        }
    }

    /// Undoes `nest`.
    pub(crate) fn unnest(&mut self, node: usize) {
        let Some(host) = self.nodes.get(node).and_then(|slot| slot.spec.host.clone()) else {
            return;
        };
        if let Some(nested) = self.nested.get_mut(&host) {
            nested.retain(|other| *other != node);
            if nested.is_empty() {
                self.nested.remove(&host);
            }
        }
    }
}
