//! The contract as Rust: wire types generated from `proto/`, conversions
//! into the checked types of `strata-types`, and the one mapping between the
//! public error and gRPC codes.

mod convert;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod log_item;
pub mod rest;
mod status;

pub use convert::{grace_from_field, instance as instance_fields, pod as pod_fields, take_input};
pub use status::{error_from_status, status_from_error};

/// The metadata of a refused `schedule.Assignments/Follow` that says where the
/// server that leads is reached.
pub const LEADER_METADATA: &str = "strata-leader";

/// Generated code is checked at its source, not by our lints.
macro_rules! generated {
    ($($(#[$doc:meta])* $module:ident = $package:literal;)*) => {$(
        $(#[$doc])*
        #[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::wildcard_imports)]
        pub mod $module {
            tonic::include_proto!($package);
        }
    )*};
}

generated! {
    /// Package `cnct.kaas.api`: Kubernetes clusters.
    kaas = "cnct.kaas.api";
    /// Package `controller`: status pushed by schedulers and agents.
    controller = "controller";
    /// Package `runtime`: cells and executables.
    runtime = "runtime";
    /// Package `schedule`: what a node is to run.
    schedule = "schedule";
    /// Package `scheduler`: nodes and instances.
    scheduler = "scheduler";
}

/// Package `observe`: logs of a node and of what it started.
pub mod observe {
    pub use self::wire::*;
    pub use crate::log_item::{LogItem, Text};

    generated! {
        /// As the generator makes it, without `LogItem`.
        wire = "observe";
    }
}

/// Package `operations`.
pub mod operations {
    generated! {
        /// Package `operations.v1`: hypervisors, storage, backups.
        v1 = "operations.v1";
    }
}

/// Package `strata`: what the published documents lack.
pub mod strata {
    generated! {
        /// Package `strata.v1`.
        v1 = "strata.v1";
    }
}

/// The compiled descriptors of every file in `proto/`, for reflection and for
/// the tests that hold them against the published documents.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
