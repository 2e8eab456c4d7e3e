//! Kubernetes clusters made of machines.
//!
//! What is tricky is decided by pure functions: which machines, which victims,
//! which version next, how a cluster stands. What is done on machines is
//! behind one trait, [`Driver`]; `kubeadm` is the real one, and `sim` is
//! simulated, with knobs for faults. Records and operations are not here: the
//! control plane keeps them.
//!
//! ```text
//! catalogue    the versions that can be installed here
//! skew         which version may follow which
//! choose       machines for a cluster, numbers for members, victims
//! status       how a cluster stands, from what was seen
//! driver       the trait; kubeadm/ and sim are its drivers
//! ```
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod choose;
mod driver;
pub mod kubeadm;
pub mod sim;
pub mod skew;
pub mod status;

pub use driver::{
    Blocker, ClusterFacts, Done, Drained, Driver, DriverError, Observed, ObservedNode, Preflight,
    Snapshot,
};
