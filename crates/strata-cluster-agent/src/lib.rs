//! What runs on every machine of a Kubernetes cluster, beside the kubelet.
//!
//! ```text
//!   agent.json ── follow ──┬── balancer   127.0.0.1:7443 ─▶ API servers
//!   (the server writes it) ├── pods       VXLAN, routes, masquerade
//!                          └── cni        10-strata.conflist
//! ```
//!
//! One process does three small things from one file. The file is followed
//! live: a machine that joins or leaves the cluster is a new file on all
//! others. A file that cannot be read changes nothing. All that is made for
//! pods is in the kernel and stays when the process dies; only connections
//! through the balancer end with it.
//!
//! [`Balancer`] is independent of the file and serves the control plane too;
//! [`config`] is what the control plane writes.

pub mod config;

mod agent;
mod api_listener;
mod cni;
mod follow;
mod pods;

pub use agent::{Agent, AgentError};
pub use config::{AgentConfig, CniConfig, CniPlugins, ConfigError, PeerConfig, PodNetworkConfig};
pub use pods::{DEVICE, TABLE};
pub use strata_balancer::{Balancer, Connections};
