//! Names of endpoints: a server at the gateway's address that answers for what
//! is on the node and, by what the control plane sends, on other nodes, and
//! passes everything else on.
//!
//! `web` and `web.strata.internal` are the same. A server of the host that
//! already listens on port 53 is no hindrance: ours listens on a port of its
//! own, and a rule brings there what is sent to port 53 of the gateway.

mod directory;
mod forward;
pub(crate) mod message;
mod remote;
mod server;
mod shares;
mod sockets;

pub(crate) use directory::Directory;
pub use remote::{NameChange, RemoteName, RemoteNames};
pub(crate) use sockets::NameSockets;

/// The domain of the names on a node. `internal` is reserved for such use:
/// the world will never have it.
pub const DOMAIN: &str = "strata.internal";
