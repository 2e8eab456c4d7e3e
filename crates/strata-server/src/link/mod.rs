//! The links to nodes: each node opens one stream and keeps it; assignments go
//! down, reports come up. Heartbeats are answered by a
//! task of their own (`heartbeat.rs`).

mod assignment;
mod assignments;
mod calling;
mod decode;
mod heartbeat;
mod images;
mod inbox;
mod names;
mod peer_changes;
mod peers;
mod projects;
mod revoked;
mod tunnels;
mod witness;

pub(crate) use assignment::unit_name;
pub use assignments::{AssignmentsApi, LinkPeer, ServerMessages};
pub(crate) use calling::{calling_node, node_certificate};
pub use heartbeat::NodeMessages;
pub use images::ServerImagesApi;
pub use tunnels::{NodeChannel, Tunnels};
