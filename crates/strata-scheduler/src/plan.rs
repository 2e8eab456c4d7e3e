//! What was decided.

use crate::{InstanceId, NodeId, ReasonCount};

/// How good a node is for a request. Higher is better, preference first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// The sum of what preferences, affinities and spreads are worth there.
    pub preference: i64,
    /// How well the policy likes the room that the node has. It compares nodes
    /// and has no unit.
    pub packing: i64,
}

/// An instance that got a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which of the requests.
    pub request: usize,
    pub instance: InstanceId,
    pub node: NodeId,
    /// Where it is now, when it moves.
    pub from: Option<NodeId>,
    /// Why it is the best place.
    pub score: Score,
    /// Instances of [`Plan::evictions`] that must have stopped before this one
    /// starts.
    pub after: Vec<InstanceId>,
}

/// An instance that must make room for another of higher priority. It is out of
/// the fleet's account; the caller that follows the plan stops it gracefully
/// and requests another place for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The instance that must go.
    pub instance: InstanceId,
    /// Name of the node.
    pub node: NodeId,
    pub priority: i32,
    /// The instance it makes room for.
    pub by: InstanceId,
}

/// Why an instance got no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    AlreadyPlaced(NodeId),
    /// The first reasons against every node, the most frequent first. Empty
    /// when the fleet is.
    NoNodeFits(Vec<ReasonCount>),
}

/// An instance that got no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which of the requests.
    pub request: usize,
    pub instance: InstanceId,
    pub cause: Cause,
}

/// What was decided for a batch of requests. The fleet counts it as done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The instances that got a place, in the order of decision.
    pub placements: Vec<Placement>,
    /// The instances that got none.
    pub failures: Vec<Failure>,
    /// The instances that must go for it.
    pub evictions: Vec<Eviction>,
}
