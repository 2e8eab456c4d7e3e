//! The links to nodes: each node opens one stream and keeps it; what it is to
//! have goes down, what became of it comes up. Heartbeats are answered by a
//! task of their own (`heartbeat.rs`).

mod assignment;
mod calling;
mod follow;
mod heard;
mod heartbeat;
mod images;
mod inbox;
mod names;
mod peer_news;
mod peers;
mod projects;
mod revoked;
mod tunnels;
mod witness;

pub(crate) use assignment::{own_volume, unit_name};
pub(crate) use calling::{calling_node, node_certificate};
pub use follow::AssignmentsFace;
pub use images::ServerImagesFace;
pub use tunnels::{NodeChannel, Tunnels};
