//! The node's network: made when something first needs it, found again after
//! a restart, taken away when the daemon ends and nothing needs it any more.
//! A node that runs no pods leaves the machine's network alone.

mod encryption;
mod given;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_network::{
    Endpoint, Network, NetworkConfig, NetworkError, Peer, PortReservation, ProjectAccess,
    PublishedPort, RemoteNames, Subnet, Tag, Watcher,
};
use strata_tasks::TaskGroup;
use strata_types::pod::PortMapping;
use strata_types::{Error, Label, Result};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::encryption::OverlayEncryption;
use crate::blocking::blocking;

/// The label by which a server marks the owner of a unit.
pub(crate) const PROJECT_LABEL: &str = "strata.dev/project";
const NAME_LABEL: &str = "strata.dev/name";
/// The label by which a machine provider knows its machines. Those are nodes of
/// a server, and reach the services of the host that nodes reach.
pub(crate) const TAG_LABEL: &str = "strata.dev/tag";

/// What the configuration says about the network.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// The addresses of this node; chosen and kept when none are given.
    pub subnet: Option<Subnet>,
    /// The addresses of all nodes together.
    pub range: Subnet,
    /// The same, where the configuration says it.
    pub configured_range: Option<Subnet>,
    /// The size of packets; found out when none is given.
    pub mtu: Option<u32>,
    /// The resolvers for names that are not ours.
    pub dns_upstreams: Vec<std::net::SocketAddr>,
    /// Ports of the host that every pod may reach. Default: none, but for
    /// names and leases.
    pub host_ports: Vec<u16>,
    /// Ports of Strata's own on other hosts, beside the usual ones.
    pub api_ports: Vec<u16>,
    /// Pods may reach the metadata service of a cloud. Default: no.
    pub metadata: bool,
    /// How many connections the host tracks for one pod; chosen where none is
    /// given.
    pub pod_connections: Option<u32>,
    /// Projects may share this node also if its kernel cannot keep their pods
    /// apart on one bridge. Default: no.
    pub allow_shared_bridge: bool,
    /// Whether what is sent to other nodes is encrypted.
    pub overlay_encryption: OverlayEncryption,
}

impl NetworkOptions {
    /// The range by default: 10.42.0.0/16.
    pub const DEFAULT_RANGE: &'static str = "10.42.0.0/16";
}

/// The network of a node.
pub(crate) struct NodeNetwork {
    options: NetworkOptions,
    tag: Tag,
    dir: PathBuf,
    encryption: encryption::EncryptionSupport,
    open: Mutex<Option<OpenNetwork>>,
    /// The other nodes, as the server last sent them.
    peers: Mutex<Vec<Peer>>,
    /// Which project may reach which, as the server last sent it.
    projects: Mutex<ProjectAccess>,
    /// What instances of other nodes are called.
    names: RemoteNames,
    tasks: TaskGroup,
}

struct OpenNetwork {
    network: Network,
    _watcher: Watcher,
    _servers: DropGuard,
}

impl NodeNetwork {
    /// The network of the run `run`, which keeps what it must in `dir`.
    pub(crate) fn new(
        options: NetworkOptions,
        run: &str,
        dir: PathBuf,
        tasks: TaskGroup,
    ) -> Result<Self> {
        let encryption = encryption::EncryptionSupport::find(options.overlay_encryption, &dir)?;
        Ok(Self {
            options,
            encryption,
            tag: tag(run)?,
            peers: Mutex::new(given::read_peers(&dir)),
            projects: Mutex::new(given::read_projects(&dir)),
            names: RemoteNames::default(),
            tasks,
            dir,
            open: Mutex::default(),
        })
    }

    fn guard(&self) -> MutexGuard<'_, Option<OpenNetwork>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The network, made if it is not there yet.
    fn get(&self) -> Result<Network> {
        self.get_with(&[])
    }

    /// The same, with what is connected already, from before a restart.
    fn get_with(&self, running: &[Endpoint]) -> Result<Network> {
        let mut open = self.guard();
        if let Some(open) = &*open {
            return Ok(open.network.clone());
        }
        let made = blocking(|| self.make(running))?;
        let network = made.network.clone();
        *open = Some(made);
        Ok(network)
    }

    fn make(&self, running: &[Endpoint]) -> Result<OpenNetwork> {
        let subnet = self.subnet()?;
        // First: whatever of it comes to be is found again after a death.
        self.keep("up", "")?;
        let mut config = NetworkConfig::new(self.tag.clone(), subnet, self.range(), &self.dir);
        config.mtu = self.options.mtu;
        config.dns_upstreams.clone_from(&self.options.dns_upstreams);
        config.host_ports.clone_from(&self.options.host_ports);
        config.api_ports.extend(&self.options.api_ports);
        config.metadata = self.options.metadata;
        config.connections = self.options.pod_connections;
        config.shared_bridge = self.options.allow_shared_bridge;
        config.wireguard = self.encryption.config();
        config.remote_names = self.names.clone();
        config.encrypted_only = self.options.overlay_encryption == OverlayEncryption::Required;
        let network = Network::open(config).map_err(public)?;
        let restored = network.restore(running).map_err(public)?;
        tracing::debug!(?restored, "network restored");
        self.connect_peers(&network);
        self.tell_projects(&network)?;
        let watcher = network.watch().map_err(public)?;
        let stop = CancellationToken::new();
        let (names, leases) = (network.clone(), network.clone());
        let (first, second) = (stop.clone(), stop.clone());
        self.tasks.restart("dns-server", move || {
            let (names, stop) = (names.clone(), first.clone());
            async move {
                if let Err(error) = names.serve_names(stop).await {
                    tracing::error!(%error, "DNS server failed");
                }
            }
        });
        self.tasks.restart("dhcp-server", move || {
            let (leases, stop) = (leases.clone(), second.clone());
            async move {
                if let Err(error) = leases.serve_leases(stop).await {
                    tracing::error!(%error, "DHCP server failed");
                }
            }
        });
        tracing::info!(%subnet, "network up");
        Ok(OpenNetwork {
            network,
            _watcher: watcher,
            _servers: stop.drop_guard(),
        })
    }

    /// The node's addresses: as configured, or as chosen the first time.
    fn subnet(&self) -> Result<Subnet> {
        let path = self.dir.join("subnet");
        if let Some(subnet) = self.options.subnet {
            return Ok(subnet);
        }
        let range = self.range();
        if let Some(kept) = read_subnet(&path)
            && range.contains(kept.network())
        {
            return Ok(kept);
        }
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        let chosen = choose(range, &routes, self.tag.as_str()).ok_or_else(|| {
            Error::exhausted(format!("no /24 of {range} is free on this machine"))
                .with_hint("set [network] subnet in the configuration")
        })?;
        self.keep("subnet", &chosen.to_string())?;
        Ok(chosen)
    }

    fn keep(&self, name: &str, text: &str) -> Result<()> {
        let write = || {
            use std::io::Write as _;
            use std::os::unix::fs::OpenOptionsExt as _;
            std::fs::create_dir_all(&self.dir)?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(self.dir.join(name))?;
            file.write_all(text.as_bytes())
        };
        let written: std::io::Result<()> = write();
        written.map_err(|error| {
            let text = format!("cannot write the network's file {name:?}: {error}");
            match error.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    Error::exhausted(text).with_hint("make room on the disk of the data directory")
                }
                _ => Error::internal(text),
            }
        })
    }

    /// After a restart: makes what runs be connected as it was. Where nothing
    /// is any more, the network goes.
    pub(crate) fn restore(&self, running: &[Endpoint], resting: &[Ipv4Addr]) -> Result<()> {
        if running.is_empty() && resting.is_empty() {
            if self.dir.join("up").exists() {
                blocking(|| self.remove());
            }
            return Ok(());
        }
        let network = self.get_with(running)?;
        for address in resting {
            if let Err(error) = network.lease(Some(*address)) {
                tracing::error!(%address, %error, "address of a stopped unit not reserved");
            }
        }
        Ok(())
    }

    /// How this node encrypts the overlay, as reported to a server.
    pub(crate) fn overlay_encryption(&self) -> strata_api::strata::v1::OverlayEncryption {
        self.encryption.report()
    }

    pub(crate) fn gateway(&self) -> Option<Ipv4Addr> {
        self.guard().as_ref().map(|open| open.network.gateway())
    }

    pub(crate) fn lease(&self, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr> {
        loop {
            self.get()?;
            // Under the lock: a network that has an address given out is not
            // exchanged for another.
            if let Some(open) = &*self.guard() {
                let leased = open.network.lease(wanted);
                return leased.map_err(|error| public(error.into()));
            }
        }
    }

    pub(crate) fn release(&self, address: Ipv4Addr) {
        if let Some(open) = &*self.guard() {
            open.network.release(address);
        }
    }

    pub(crate) fn reserve_ports(&self, endpoint: &Endpoint) -> Result<PortReservation> {
        blocking(|| self.get()?.reserve_ports(endpoint).map_err(public))
    }

    pub(crate) fn attach(&self, namespace: &OwnedFd, endpoint: &Endpoint) -> Result<()> {
        self.get()?
            .attach(namespace.as_fd(), endpoint)
            .map_err(public)
    }

    /// An interface for a virtual machine, as an open file.
    pub(crate) fn attach_tap(&self, endpoint: &Endpoint) -> Result<OwnedFd> {
        self.get()?.attach_tap(endpoint).map_err(public)
    }

    /// The node's own address in its subnet, and how long the subnet's prefix
    /// is.
    pub(crate) fn gateway_and_prefix(&self) -> (Option<Ipv4Addr>, u8) {
        match &*self.guard() {
            Some(open) => {
                let prefix = open.network.config().subnet.prefix();
                (Some(open.network.gateway()), prefix)
            }
            None => (None, 24),
        }
    }

    pub(crate) fn detach(&self, endpoint: &Endpoint) -> Result<()> {
        let network = self.guard().as_ref().map(|open| open.network.clone());
        match network {
            Some(network) => network.detach(endpoint).map_err(public),
            None => Ok(()),
        }
    }

    /// Takes the network away. Only when nothing is connected.
    pub(crate) fn close(&self) {
        let was_open = self.guard().take().is_some();
        if was_open {
            self.remove();
        }
    }

    fn remove(&self) {
        match Network::remove(&self.tag, &self.dir) {
            Ok(()) => drop(std::fs::remove_file(self.dir.join("up"))),
            Err(error) => tracing::warn!(%error, "network not removed"),
        }
    }
}

/// The project that a server marked a unit with.
pub(crate) fn project_of(labels: &BTreeMap<String, String>) -> Option<String> {
    labels.get(PROJECT_LABEL).cloned()
}

/// The name that a server marked a unit with: what people call it.
pub(crate) fn name_of(labels: &BTreeMap<String, String>) -> Option<Label> {
    labels.get(NAME_LABEL)?.parse().ok()
}

/// The names by which others find a unit that a server marked.
pub(crate) fn aliases_of(labels: &BTreeMap<String, String>) -> Vec<String> {
    let (Some(name), Some(project)) = (name_of(labels), project_of(labels)) else {
        return Vec::new();
    };
    let mut aliases = vec![format!("{name}.{project}")];
    if project == strata_network::DEFAULT_PROJECT {
        aliases.push(name.to_string());
    }
    aliases
}

/// A port as the network knows it.
pub(crate) fn published(port: &PortMapping) -> PublishedPort {
    PublishedPort {
        host_ip: port.host_ip,
        host_port: port.host_port,
        port: port.port,
        protocol: match port.protocol {
            strata_types::pod::Protocol::Tcp => strata_network::Protocol::Tcp,
            strata_types::pod::Protocol::Udp => strata_network::Protocol::Udp,
        },
    }
}

/// Takes away whatever the network of a run left on this machine.
pub fn remove_network(run: &str, dir: &Path) -> Result<()> {
    Network::remove(&tag(run)?, dir).map_err(public)
}

/// The mark of a run: the end of its name, which is the random part of it.
fn tag(run: &str) -> Result<Tag> {
    let start = run.len().saturating_sub(8);
    let end = run.get(start..).unwrap_or(run);
    end.parse()
        .map_err(|error: strata_network::ConfigError| Error::internal(error.to_string()))
}

fn read_subnet(path: &Path) -> Option<Subnet> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The first /24 of the range that no route of the machine touches, looked
/// for from a place that differs between runs, so that those that start at
/// the same time do not meet.
fn choose(range: Subnet, routes: &str, seed: &str) -> Option<Subnet> {
    let first = u32::from(range.network());
    let count = 1u32.checked_shl(24u32.checked_sub(range.prefix().into())?)?;
    let hash = seed
        .bytes()
        .fold(0u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    let taken: Vec<(u32, u32)> = routes.lines().skip(1).filter_map(route).collect();
    let free = |network: u32| {
        let overlaps = |(to, mask): &(u32, u32)| {
            let common = mask & 0xffff_ff00;
            *mask != 0 && network & common == to & common
        };
        !taken.iter().any(overlaps)
    };
    (0..count)
        .map(|i| first + ((hash.wrapping_add(i) % count) << 8))
        .find(|network| free(*network))
        .and_then(|network| format!("{}/24", Ipv4Addr::from(network)).parse().ok())
}

/// Where a line of the kernel's table leads to: network and mask.
fn route(line: &str) -> Option<(u32, u32)> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let number = |i: usize| {
        u32::from_str_radix(fields.get(i)?, 16)
            .ok()
            .map(u32::swap_bytes)
    };
    Some((number(1)?, number(7)?))
}

/// The public error: by what the caller can do about it.
fn public(error: NetworkError) -> Error {
    let text = strata_types::chain(&error);
    match error {
        NetworkError::PortInUse { .. } | NetworkError::PortPublished { .. } => {
            Error::already_exists(text)
                .in_field("pod.ports")
                .with_hint("publish another port, or stop what has it")
        }
        NetworkError::NoSuchHostAddress { .. } => Error::invalid("pod.ports", text),
        NetworkError::AddressPool(pool) => match pool {
            strata_network::AddressPoolError::Exhausted { .. } => Error::exhausted(text)
                .with_hint("destroy pods that are not needed, or give the node a larger subnet"),
            strata_network::AddressPoolError::NotOurs { .. } => Error::invalid("pod.address", text),
            strata_network::AddressPoolError::Taken(_) => {
                Error::already_exists(text).in_field("pod.address")
            }
        },
        NetworkError::Config(_) => {
            Error::wrong_state(text).with_hint("correct [network] in the configuration")
        }
        _ => Error::internal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        st-a-br\t002A2A0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn a_subnet_that_a_route_touches_is_not_chosen() {
        let range: Subnet = "10.42.42.0/23".parse().unwrap();
        for seed in ["a", "b", "c", "d"] {
            let chosen = choose(range, ROUTES, seed).unwrap();
            assert_eq!(chosen.to_string(), "10.42.43.0/24");
        }
        let all = format!("{ROUTES}x\t00002A0A\t0\t1\t0\t0\t0\t0000FFFF\t0\t0\t0\n");
        assert!(choose(range, &all, "a").is_none());
    }

    #[test]
    fn runs_begin_to_look_at_different_places() {
        let range: Subnet = NetworkOptions::DEFAULT_RANGE.parse().unwrap();
        let chosen: std::collections::HashSet<_> = ["abc1", "abc2", "zzz", "0f0f"]
            .map(|seed| choose(range, "", seed).unwrap().to_string())
            .into_iter()
            .collect();
        assert!(chosen.len() > 2, "{chosen:?}");
    }
}
