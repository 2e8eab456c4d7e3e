//! Placement: which instance goes to which node, and why.
//!
//! A pure function from facts to a plan. The facts are a [`Fleet`]: a snapshot
//! of nodes and of what is placed on them. [`place`] decides for a batch of
//! [`Request`]s and answers a [`Plan`]; [`drain`] empties a node; [`explain`]
//! reports for one request why this node, and for every other node the first
//! reason against it. There is no I/O here, no clock, and no chance but a seed
//! that is given: the same fleet decides the same way.
//!
//! ```text
//! resources, rules, request, node   what is requested and what is offered
//! fleet/                            the snapshot and the changes to it
//! index/                            nodes by size, disk, port and label
//! compiled_rules/                   what follows from rules, kept up to date
//! search                            the best node, by way of the indexes
//! feasibility                       one node against one request, plainly
//! place, preempt, drain, explain    the decisions
//! ```
//!
//! A node is better than another if its preferences sum up higher; among
//! equals, if the policy prefers the class of its free room; among equals
//! again, if it comes first. The search finds exactly the best, so an
//! explanation, which checks the feasibility of every node, agrees with it.

mod compiled_rules;
mod drain;
mod error;
mod explain;
mod feasibility;
mod fleet;
mod hash;
mod index;
mod node;
mod place;
mod plan;
mod preempt;
mod reason;
mod request;
mod resources;
mod rules;
mod search;

pub use drain::drain;
pub use error::FleetError;
pub use explain::{Explanation, explain};
pub use fleet::{Fleet, Settings};
pub use node::{NodeId, NodeSpec, NodeState, Overcommit};
pub use place::place;
pub use plan::{Cause, Eviction, Failure, Placement, Plan, Score};
pub use reason::{Reason, ReasonCount};
pub use request::{InstanceId, Request};
pub use resources::{GIB, GpuDemand, Gpus, HostPort, MIB, Protocol, Resources};
pub use rules::{
    Affinity, AffinityMode, Constraint, Domain, Kind, Labels, POOL_LABEL, Policy, Preference,
    Rules, Selector, Spread,
};
