//! The handle: what is known in memory, and the sockets to the kernel.
//!
//! Locks are taken in this order, and none is held over a wait for anything
//! but the kernel: topology, rules, links, state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::deferred_removal::RemovalWorker;
use crate::error::{Result, file, kernel};
use crate::ipam::{AddressPool, AddressPoolError};
use crate::names::{Directory, NameSockets};
use crate::netlink::{Family, Socket};
use crate::overlay::PeerPlan;
use crate::ports::HeldPorts;
use crate::projects::Projects;
use crate::rules::{Meters, Table, TableFacts};
use crate::{Endpoint, NetworkConfig, PublishedPort, Subnet, forwarding, link};

/// The network of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Network(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: NetworkConfig,
    pub(crate) facts: TableFacts,
    pub(crate) table: String,
    pub(crate) mtu: u32,
    pub(crate) ipv6: bool,
    /// The number of the bridge; another one once it was created again.
    pub(crate) bridge: AtomicU32,
    pub(crate) directory: Directory,
    pub(crate) name_sockets: NameSockets,
    /// Where WireGuard listens; 0 while there is no device.
    pub(crate) wireguard_port: AtomicU16,
    /// Held while bridge or overlay are made or repaired.
    pub(crate) topology: Mutex<()>,
    rules: Mutex<Socket>,
    pub(crate) rules_port: u32,
    links: Mutex<Socket>,
    state: Mutex<State>,
    /// Taken last, and for no longer than a lookup.
    pub(crate) projects: Mutex<Projects>,
    pub(crate) sweeper: RemovalWorker,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) pool: AddressPool,
    pub(crate) endpoints: BTreeMap<Ipv4Addr, Endpoint>,
    pub(crate) ports: HeldPorts,
    pub(crate) peers: PeerPlan,
    pub(crate) uplinks: BTreeSet<String>,
    /// The subnets of peers in which the host itself has an address: it is in
    /// the network of that node.
    pub(crate) around: BTreeSet<Subnet>,
}

/// Ports that are held for an endpoint until it is attached; given up when
/// this is dropped before.
#[derive(Debug)]
pub struct PortReservation {
    network: Network,
    owner: Ipv4Addr,
    ports: Vec<PublishedPort>,
}

impl Drop for PortReservation {
    fn drop(&mut self) {
        let mut state = self.network.0.state();
        if let Some(attached) = state.endpoints.get(&self.owner) {
            self.ports.retain(|port| !attached.ports.contains(port));
        }
        state.ports.release(self.owner, &self.ports);
    }
}

impl Network {
    /// Makes bridge and rules, or repairs them; what is right already stays.
    /// After a start, [`Network::restore`] comes next: until then the rules
    /// that an earlier daemon left are in force, so that nothing published
    /// is interrupted.
    pub fn open(config: NetworkConfig) -> Result<Self> {
        config.check()?;
        std::fs::create_dir_all(&config.state).map_err(file("make", &config.state))?;
        let open = |family| Socket::open(family).map_err(kernel("open a netlink socket"));
        let (mut links, mut rules) = (open(Family::Route)?, open(Family::Netfilter)?);
        let mtu = match config.mtu {
            Some(mtu) => mtu,
            None => crate::bridge::usual_mtu(&mut links, config.wireguard.is_some())?,
        };
        let ipv6 = forwarding::has_ipv6();
        let bridge = crate::bridge::ensure(&mut links, &config, mtu, ipv6)?;
        let name_sockets = NameSockets::bind(config.subnet.gateway(), &config.tag)?;
        let uplinks = forwarding::open_uplinks(&mut links, &mut rules, &config.state)?;
        let facts = TableFacts {
            tag: config.tag.clone(),
            subnet: config.subnet,
            range: config.range,
            overlay_port: config.overlay_port,
            names_port: name_sockets.port(),
            metadata: config.metadata,
            frames: has_frames(&mut rules, &config.tag.table()),
            meters: meters(&mut rules, &config),
        };
        let network = Self(Arc::new(Inner {
            table: config.tag.table(),
            facts,
            mtu,
            ipv6,
            bridge: AtomicU32::new(bridge),
            directory: Directory::new(
                config.range,
                config.subnet.gateway(),
                config.remote_names.clone(),
            ),
            name_sockets,
            wireguard_port: AtomicU16::new(0),
            topology: Mutex::new(()),
            rules_port: rules.port(),
            rules: Mutex::new(rules),
            links: Mutex::new(links),
            sweeper: RemovalWorker::start()?,
            state: Mutex::new(State {
                pool: AddressPool::new(config.subnet),
                endpoints: BTreeMap::new(),
                ports: HeldPorts::default(),
                peers: PeerPlan::default(),
                uplinks,
                around: BTreeSet::new(),
            }),
            projects: Mutex::default(),
            config,
        }));
        let mut rules = network.0.rules();
        if !network.0.table_of(&mut rules).exists()? {
            network.0.rebuild(&mut rules)?;
        }
        drop(rules);
        Ok(network)
    }

    /// How it was configured.
    pub fn config(&self) -> &NetworkConfig {
        &self.0.config
    }

    /// The size of packets.
    pub fn mtu(&self) -> u32 {
        self.0.mtu
    }

    /// The UDP port on which peers reach the encrypted overlay, once there are
    /// any. Not the configured one, where another process has that.
    pub fn wireguard_port(&self) -> Option<u16> {
        match self.0.wireguard_port.load(Ordering::Relaxed) {
            0 => None,
            port => Some(port),
        }
    }

    /// The address of the node in its subnet: gateway and server of names.
    pub fn gateway(&self) -> Ipv4Addr {
        self.0.config.subnet.gateway()
    }

    /// Gives out an address, the requested one or the next.
    pub fn lease(&self, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, AddressPoolError> {
        self.0.state().pool.lease(wanted)
    }

    /// How many addresses are given out.
    pub fn leased(&self) -> u32 {
        self.0.state().pool.leased()
    }

    /// Takes an address back. Idempotent.
    pub fn release(&self, address: Ipv4Addr) {
        self.0.state().pool.release(address);
    }

    /// Holds the ports of an endpoint before it is attached, so that a port
    /// that is taken is known before anything is started. Attaching takes
    /// them over; dropping the reservation without it gives them up.
    pub fn reserve_ports(&self, endpoint: &Endpoint) -> Result<PortReservation> {
        let owner = endpoint.address;
        let ports = self
            .0
            .state()
            .ports
            .hold(owner, &endpoint.ports, self.0.ipv6)?;
        Ok(PortReservation {
            network: self.clone(),
            owner,
            ports,
        })
    }

    /// Waits until the interfaces of everything detached are gone.
    pub fn settle(&self) {
        self.0.sweeper.settle();
    }

    /// Whether bridge and rules are still there. Cheap; does not cover single
    /// rules, see [`Network::watch`].
    pub fn check(&self) -> Result<bool> {
        let mut rules = self.0.rules();
        let table = self.0.table_of(&mut rules).exists()?;
        drop(rules);
        let bridge = link::find(&mut self.0.links(), &self.0.config.tag.bridge())?;
        Ok(table && bridge.is_some_and(|bridge| bridge.up))
    }
}

/// Whether frames between ports of a bridge can be ruled.
fn has_frames(rules: &mut Socket, table: &str) -> bool {
    let has = Table {
        socket: rules,
        name: table,
    }
    .has_frames();
    if !has {
        tracing::warn!(
            "the kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE): \
             projects are kept apart between nodes, not within this one, so this node has \
             pods of one project only, unless [network] allow_shared_bridge is set"
        );
    }
    has
}

/// What the kernel counts for each pod.
fn meters(rules: &mut Socket, config: &NetworkConfig) -> Meters {
    let bounds = (config.connections, config.all_connections);
    let meters = Meters::of(rules, &config.tag.table(), bounds);
    if meters.connections.is_none() {
        tracing::warn!(
            "the kernel does not count connections (CONFIG_NFT_CONNLIMIT): one pod can fill the \
             table in which it tracks those of all"
        );
    } else if meters.all_connections.is_none() {
        tracing::warn!(
            "the kernel does not count connections in groups (CONFIG_NFT_HASH): all pods together \
             can fill the table in which it tracks those of the host"
        );
    }
    if !meters.rates {
        tracing::warn!(
            "the kernel does not limit rates (CONFIG_NFT_LIMIT): one pod can keep the resolver \
             from answering others, and its node from reaching its server"
        );
    }
    meters
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn links(&self) -> MutexGuard<'_, Socket> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rules(&self) -> MutexGuard<'_, Socket> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn table_of<'a>(&'a self, socket: &'a mut Socket) -> Table<'a> {
        Table {
            socket,
            name: &self.table,
        }
    }

    /// The names that the host's end of an endpoint can have.
    pub(crate) fn port_names(&self, address: Ipv4Addr) -> [String; 4] {
        let index = self.config.subnet.index_of(address).unwrap_or(0);
        self.config.tag.ports(index)
    }

    /// Takes the interfaces of an address away: cut off now, gone soon.
    pub(crate) fn mark_ports_for_removal(&self, address: Ipv4Addr) -> Result<()> {
        let mut links = self.links();
        let mut found = Vec::new();
        for name in self.port_names(address) {
            found.extend(link::find(&mut links, &name)?);
        }
        self.sweeper.mark_for_removal(&mut links, &found)
    }
}
