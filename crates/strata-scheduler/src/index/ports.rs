//! For each port that a caller uses, the nodes where it is taken.

use super::Bits;
use crate::HostPort;
use crate::hash::FastMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct PortIndex(FastMap<HostPort, Bits>);

impl PortIndex {
    pub(crate) fn take(&mut self, port: HostPort, node: usize) {
        self.0.entry(port).or_default().set(node);
    }

    pub(crate) fn free(&mut self, port: HostPort, node: usize) {
        if let Some(nodes) = self.0.get_mut(&port) {
            nodes.clear(node);
        }
    }

    pub(crate) fn taken(&self, port: HostPort) -> Option<&Bits> {
        self.0.get(&port)
    }
}
