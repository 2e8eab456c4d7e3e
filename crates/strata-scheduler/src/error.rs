//! What can be wrong with a change to the fleet.

use crate::{InstanceId, NodeId};

/// A change that contradicts the fleet. The fleet is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// Two nodes cannot have one name.
    #[error("a node named {0} is in the fleet already")]
    NodeExists(String),
    /// The handle is of no node, or of one that was removed.
    #[error("the fleet has no node {}", .0.0)]
    NoSuchNode(NodeId),
    /// An instance runs in one place.
    #[error("instance {0} is placed already")]
    InstanceExists(InstanceId),
    /// The instance is not placed.
    #[error("instance {0} is not placed")]
    NoSuchInstance(InstanceId),
}
