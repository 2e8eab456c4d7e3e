//! The links to nodes: each node opens one stream and keeps it; what it is to
//! have goes down, what became of it comes up.

mod assignment;
mod follow;
mod tunnels;

pub use follow::AssignmentsFace;
pub use tunnels::{NodeChannel, Tunnels};
pub(crate) use assignment::unit_name;
pub(crate) use follow::{calling_node, remote_address};
