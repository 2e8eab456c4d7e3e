//! The links to nodes: each node opens one stream and keeps it; what it is to
//! have goes down, what became of it comes up.

mod assignment;
mod follow;
mod heard;
mod tunnels;

pub(crate) use assignment::{own_volume, unit_name};
pub use follow::AssignmentsFace;
pub(crate) use follow::calling_node;
pub use tunnels::{NodeChannel, Tunnels};
