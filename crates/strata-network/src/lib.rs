//! The node's network: bridge, addresses, published ports, names, and the
//! overlay between nodes.
//!
//! ```text
//!   pod            pod            VM
//!   eth0           eth0           virtio
//!     │ pair         │ pair         │ tap
//!   ──┴──────────────┴──────────────┴──  bridge st-<tag>-br, the gateway
//!         │ routed                   │ routed
//!       uplinks, masqueraded       st-<tag>-wg, WireGuard to other nodes
//!                                  st-<tag>-vx, VXLAN to those without a key
//! ```
//!
//! Everything is requested of the kernel directly, by netlink; no program is
//! run. All names on the host begin with `st-<tag>-` (interfaces) or are
//! `strata-<tag>` (the nftables table), so runs live side by side and each can
//! be removed completely, by [`Network::remove`], also when its daemon has
//! died. Nothing else of the host is changed but forwarding of uplinks where it
//! is off, which is restored.
//!
//! Calls block for as long as the kernel needs. Servers for names and leases
//! are async.

mod anti_spoofing;
mod attach;
mod bridge;
mod cluster;
mod config;
mod deferred_removal;
pub mod dhcp;
mod endpoint;
mod error;
mod facts;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ipam;
mod link;
mod names;
mod neighbour;
mod netlink;
mod netns;
mod network;
mod overlay;
mod ports;
mod projects;
mod publish;
mod remove;
mod restore;
mod rules;
mod subnet;
mod sys;
mod tap;
pub mod uplink;
mod watch;
mod wireguard;

pub use cluster::{ClusterOverlay, ClusterOverlayConfig};
pub use config::{ConfigError, NetworkConfig, Tag};
pub use endpoint::{DEFAULT_PROJECT, Endpoint, Mac, Owner, Protocol, PublishedPort};
pub use error::{NetworkError, Result};
pub use facts::{NetworkFacts, facts};
pub use ipam::AddressPoolError;
pub use names::{DOMAIN, NameChange, RemoteName, RemoteNames};
pub use netlink::NetlinkError;
pub use network::{Network, PortReservation};
pub use overlay::Peer;
pub use projects::ProjectAccess;
pub use restore::Restored;
pub use subnet::{Subnet, SubnetError};
pub use watch::Watcher;
pub use wireguard::{
    KeyError, PrivateKey, PublicKey, WireGuardConfig, WireGuardPeer,
    is_available as wireguard_is_available,
};
