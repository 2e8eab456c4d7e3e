//! What can go wrong, by what it was about.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::ipam::AddressPoolError;
use crate::netlink::NetlinkError;
use crate::{Protocol, PublishedPort};

/// A result of the network.
pub type Result<T, E = NetworkError> = std::result::Result<T, E>;

/// Why something of the network did not work.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no address.
    #[error(transparent)]
    AddressPool(#[from] AddressPoolError),
    /// The kernel did not do it.
    #[error("{what}")]
    Kernel {
        /// What was requested of it.
        what: String,
        source: NetlinkError,
    },
    /// A file of the system could not be read or written.
    #[error("{what} {}", path.display())]
    File {
        /// What was done with it.
        what: &'static str,
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// Another process of the host, or another run, has the port.
    #[error("port {port}/{protocol} is in use by another process on this host")]
    PortInUse {
        /// The port of the host.
        port: u16,
        /// TCP or UDP.
        protocol: Protocol,
    },
    /// Another endpoint of this run has published the port.
    #[error("port {port} is already published by another endpoint of this node")]
    PortPublished {
        /// The port as requested.
        port: PublishedPort,
        owner: Ipv4Addr,
    },
    /// The host has no such address.
    #[error("port {port}: this host has no address {address}")]
    NoSuchHostAddress {
        /// The port as requested.
        port: PublishedPort,
        address: IpAddr,
    },
    /// A port could not be held for another reason.
    #[error("hold port {port}")]
    Port {
        /// The port as requested.
        port: PublishedPort,
        /// The message of the system.
        source: io::Error,
    },
    /// The address of an endpoint is not of this node.
    #[error("{name}: address {address} is not of this node's subnet")]
    ForeignAddress { name: String, address: Ipv4Addr },
    /// The kernel cannot keep projects on one bridge apart.
    #[error(
        "{name} of project {project} cannot be on this node beside {other} of project \
         {other_project}: the kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE), so \
         they would reach each other; allow_shared_bridge of [network] allows it"
    )]
    SharedBridge {
        name: String,
        project: String,
        /// Another one that is attached.
        other: String,
        /// The project of that.
        other_project: String,
    },
    /// Another endpoint is attached at the address.
    #[error("address {address} belongs to {owner}, not to {name}")]
    AddressInUse {
        name: String,
        address: Ipv4Addr,
        owner: String,
    },
    /// The network namespace has an interface of the name already.
    #[error("{name}: its network namespace has an eth0 that is not ours")]
    InterfaceTaken { name: String },
    /// The bridge went away while it was made.
    #[error("the bridge {0} went away while it was set up")]
    BridgeGone(String),
    /// The network namespace could not be entered.
    #[error("enter the network namespace")]
    Namespace(#[source] io::Error),
    /// A tap could not be made.
    #[error("make the tap {name}")]
    Tap {
        name: String,
        /// The message of the system.
        source: io::Error,
    },
    /// A server of the network could not listen.
    #[error("listen for {what}")]
    Listen {
        what: &'static str,
        /// The message of the system.
        source: io::Error,
    },
    /// Two peers report the same subnet, or one has ours.
    #[error("peers: subnet {0} is there twice, or is this node's own")]
    PeerSubnet(crate::Subnet),
}

/// Adds what was requested, when the kernel refuses.
pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(NetlinkError) -> NetworkError {
    let what = what.into();
    move |source| NetworkError::Kernel { what, source }
}

/// Adds which file, when the system refuses.
pub(crate) fn file(
    what: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> NetworkError {
    let path = path.into();
    move |source| NetworkError::File { what, path, source }
}
