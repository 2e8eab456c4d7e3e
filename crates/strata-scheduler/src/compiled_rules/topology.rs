//! The domains of a label: the domain of each node, and the nodes of each
//! domain. Shared by all rules that name the label, as it is the same for all
//! of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::Nodes;
use crate::index::Bits;

/// Of nodes without the label.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    domains: Vec<u32>,
    members: Vec<Bits>,
}

impl Topology {
    fn new(key: &str, nodes: &Nodes) -> Self {
        let mut domains = vec![NONE; nodes.end()];
        let mut members = Vec::new();
        for (domain, list) in nodes.labels.values(key).enumerate() {
            let mut set = Bits::with_room(nodes.end());
            for &node in list {
                domains[node as usize] = domain as u32;
                set.set(node as usize);
            }
            members.push(set);
        }
        Self { domains, members }
    }

    /// The domain of a node.
    pub(crate) fn domain(&self, node: usize) -> Option<usize> {
        let domain = *self.domains.get(node)?;
        (domain != NONE).then_some(domain as usize)
    }

    /// The nodes of each domain.
    pub(crate) fn members(&self) -> &[Bits] {
        &self.members
    }
}

/// Topologies by label, each as of some version of all labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topologies(BTreeMap<String, (u64, Arc<Topology>)>);

impl Topologies {
    pub(super) fn get(&mut self, key: &str, nodes: &Nodes) -> Arc<Topology> {
        let current = nodes.relabelled();
        if let Some((version, topology)) = self.0.get(key)
            && *version == current
        {
            return Arc::clone(topology);
        }
        let topology = Arc::new(Topology::new(key, nodes));
        let entry = (current, Arc::clone(&topology));
        self.0.insert(key.to_owned(), entry);
        topology
    }
}
