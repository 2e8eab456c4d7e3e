//! One instance that needs a place.

use std::fmt;
use std::sync::Arc;

use crate::{Resources, Rules};

/// The id of an instance, as the bits of its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u128);

impl fmt::Display for InstanceId {
    /// As a UUID is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            bits >> 96,
            (bits >> 80) & 0xffff,
            (bits >> 64) & 0xffff,
            (bits >> 48) & 0xffff,
            bits & 0xffff_ffff_ffff
        )
    }
}

/// One instance that needs a place, or has one.
#[derive(Clone, Debug)]
pub struct Request {
    /// Id of the instance.
    pub instance: InstanceId,
    pub resources: Resources,
    /// Higher goes first.
    pub priority: i32,
    /// Whether instances of lower priority may be stopped for it when nothing
    /// else helps.
    pub preempts: bool,
    /// What it requires of its place, shared by the instances of its workload.
    pub rules: Arc<Rules>,
}

impl Request {
    /// A request of priority 0 that preempts nothing.
    #[must_use]
    pub fn new(instance: InstanceId, resources: Resources, rules: Arc<Rules>) -> Self {
        Self {
            instance,
            resources,
            priority: 0,
            preempts: false,
            rules,
        }
    }
}
