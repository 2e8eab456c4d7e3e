//! What a server gives to the node's network: a subnet of its own, the range of
//! all nodes, and who the others are. It is kept, so that a daemon that starts
//! while its server is away connects its pods as before.

use std::path::Path;
use std::sync::PoisonError;

use strata_network::{Network, Peer, Subnet};
use strata_types::{Error, Result};

use super::{NodeNetwork, public, read_subnet};
use crate::blocking::blocking;

const PEERS: &str = "peers.json";
const RANGE: &str = "range";
const OTHERS: &str = "others";

/// The peers that were kept.
pub(super) fn read_peers(folder: &Path) -> Vec<Peer> {
    let text = std::fs::read(folder.join(PEERS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

impl NodeNetwork {
    /// The addresses of all nodes together: as given, or as configured.
    pub(super) fn range(&self) -> Subnet {
        read_subnet(&self.folder.join(RANGE)).unwrap_or(self.options.range)
    }

    /// The subnet that cannot be exchanged for another: the one that is
    /// configured, or that somebody has an address in.
    pub(crate) fn subnet_in_use(&self) -> Option<Subnet> {
        let of_pods = || {
            let open = self.guard();
            let network = &open.as_ref()?.network;
            (network.leased() > 0).then(|| network.config().subnet)
        };
        self.options.subnet.or_else(of_pods)
    }

    /// The subnet to ask a server for: one that is had already, or one that
    /// touches nothing else on this machine, where another run may have the
    /// first of the same range.
    pub(crate) fn subnet_to_ask_for(&self) -> Option<Subnet> {
        self.subnet_in_use().or_else(|| self.subnet().ok())
    }

    /// Takes a subnet of the range of all nodes. Refused where another one is
    /// in use.
    pub(crate) fn give(&self, subnet: Subnet, range: Subnet) -> Result<()> {
        if let Some(other) = self.subnet_in_use().filter(|other| *other != subnet) {
            return Err(Error::wrong_state(format!(
                "the server gives {subnet} to this node, which keeps {other}: it is configured or has pods in it"
            ))
            .with_hint("destroy what has an address on this node, or have the server take its subnet"));
        }
        let mut open = self.guard();
        let is = |network: &Network| {
            let config = network.config();
            config.subnet == subnet && config.range == range
        };
        match open.as_ref().map(|open| &open.network) {
            Some(network) if is(network) => return Ok(()),
            // Others may be reached by names of the old range until the next
            // start; what has an address keeps it.
            Some(network) if network.leased() > 0 => {}
            Some(_) => {
                drop(open.take());
                blocking(|| self.remove());
            }
            None => {}
        }
        self.keep(RANGE, &range.to_string())?;
        self.keep("subnet", &subnet.to_string())
    }

    /// Sets the other nodes to exactly these, now and whenever the network is
    /// made.
    pub(crate) fn set_peers(&self, peers: Vec<Peer>) -> Result<()> {
        let network = {
            let open = self.guard();
            let mut known = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            if *known != peers {
                let text = serde_json::to_string(&peers);
                let text = text.map_err(|error| Error::internal(error.to_string()))?;
                self.keep(PEERS, &text)?;
                *known = peers;
            }
            open.as_ref().map(|open| open.network.clone())
        };
        match network {
            Some(network) => {
                let peers = self.peers_but(network.config().subnet);
                blocking(|| network.set_peers(&peers)).map_err(public)
            }
            None => Ok(()),
        }
    }

    /// Says whether there are other nodes, which may be none that can be sent
    /// to. It is kept like the peers.
    pub(crate) fn set_others(&self, others: bool) -> Result<()> {
        let path = self.folder.join(OTHERS);
        match (others, path.exists()) {
            (true, false) => self.keep(OTHERS, ""),
            (false, true) => std::fs::remove_file(&path)
                .map_err(|error| Error::internal(format!("{}: {error}", path.display()))),
            _ => Ok(()),
        }
    }

    /// Whether there are other nodes.
    pub(crate) fn has_peers(&self) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        !peers.is_empty() || self.folder.join(OTHERS).exists()
    }

    /// Connects a network that was just made. One that cannot reach the others
    /// is better than none.
    pub(super) fn connect_peers(&self, network: &Network) {
        let peers = self.peers_but(network.config().subnet);
        if peers.is_empty() {
            return;
        }
        if let Err(error) = network.set_peers(&peers) {
            tracing::error!(%error, "other nodes are not reached");
        }
    }

    /// The peers, without any that claims our own subnet.
    fn peers_but(&self, own: Subnet) -> Vec<Peer> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut subnets = std::collections::HashSet::from([own]);
        let others = peers.iter().filter(|peer| subnets.insert(peer.subnet));
        others.copied().collect()
    }
}
