//! What a server gives to the node's network: a subnet of its own, the range of
//! all nodes, and the peers. It is kept, so that a daemon that starts while its
//! server is away connects its pods as before.

use std::path::Path;
use std::sync::PoisonError;

use strata_network::{NameChange, Network, Peer, ProjectAccess, Subnet};
use strata_types::{Error, Result};

use super::{NodeNetwork, public, read_subnet};
use crate::blocking::blocking;

const PEERS: &str = "peers.json";
const PROJECTS: &str = "projects.json";
const RANGE: &str = "range";
const OTHERS: &str = "others";

/// The peers that were kept.
pub(super) fn read_peers(dir: &Path) -> Vec<Peer> {
    let text = std::fs::read(dir.join(PEERS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// What was kept of projects.
pub(super) fn read_projects(dir: &Path) -> ProjectAccess {
    let text = std::fs::read(dir.join(PROJECTS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

impl NodeNetwork {
    /// Sets which project may reach which, now and whenever the network is
    /// made.
    pub(crate) fn set_projects(&self, access: ProjectAccess) -> Result<()> {
        let network = {
            let open = self.guard();
            let mut known = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            if *known == access {
                return Ok(());
            }
            let text = serde_json::to_string(&access);
            let text = text.map_err(|error| Error::internal(error.to_string()))?;
            self.keep(PROJECTS, &text)?;
            *known = access.clone();
            open.as_ref().map(|open| open.network.clone())
        };
        match network {
            Some(network) => blocking(|| network.set_projects(access)).map_err(public),
            None => Ok(()),
        }
    }

    /// Passes the projects to a network that was just created.
    pub(super) fn tell_projects(&self, network: &Network) -> Result<()> {
        let known = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        network.set_projects(known.clone()).map_err(public)
    }

    /// Applies the names of instances of other nodes.
    pub(crate) fn update_names(&self, change: NameChange) {
        self.names.update(change);
    }

    /// The addresses of all nodes together: as given, or as configured.
    pub(super) fn range(&self) -> Subnet {
        read_subnet(&self.dir.join(RANGE)).unwrap_or(self.options.range)
    }

    /// The subnet that cannot be exchanged for another: the one that is
    /// configured, or one with an address in use.
    pub(crate) fn subnet_in_use(&self) -> Option<Subnet> {
        let of_pods = || {
            let open = self.guard();
            let network = &open.as_ref()?.network;
            (network.leased() > 0).then(|| network.config().subnet)
        };
        self.options.subnet.or_else(of_pods)
    }

    /// The subnet to request from a server: one that is had already, or one
    /// that touches nothing else on this machine, where another run may have
    /// the first of the same range.
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
                let set = blocking(|| network.set_peers(&peers)).map_err(public);
                self.note_port(&network);
                set
            }
            None => Ok(()),
        }
    }

    /// How many other nodes can be sent to.
    pub(crate) fn peer_count(&self) -> usize {
        let known = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        known.len()
    }

    /// Sets whether there are other nodes, which may be none that can be sent
    /// to. It is kept like the peers.
    pub(crate) fn set_others(&self, others: bool) -> Result<()> {
        let path = self.dir.join(OTHERS);
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
        !peers.is_empty() || self.dir.join(OTHERS).exists()
    }

    /// Connects a network that was just made. One that cannot reach the others
    /// is better than none.
    pub(super) fn connect_peers(&self, network: &Network) {
        let peers = self.peers_but(network.config().subnet);
        if peers.is_empty() {
            return;
        }
        if let Err(error) = network.set_peers(&peers) {
            tracing::error!(%error, "overlay peers not configured");
        }
        self.note_port(network);
    }

    /// Takes note of where the encrypted overlay listens.
    fn note_port(&self, network: &Network) {
        if let Some(port) = network.wireguard_port() {
            self.encryption.listens_on(port, &self.dir);
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
