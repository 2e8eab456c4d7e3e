//! Worlds for tests: a daemon of one's own, a look at the host before and
//! after, the command line as a user types it, and waiting on conditions.
//!
//! Each test starts what it needs in a directory of its own with ports of its
//! own, so that any number of them run side by side. What a test made is
//! taken away when its [`Daemon`] goes out of scope, and that nothing is left
//! is part of every test.

mod campaign;
mod capture;
mod cli;
pub mod cluster;
pub mod conformance;
mod daemon;
mod disk;
pub mod faults;
mod gate;
pub mod guest;
mod host;
mod https;
pub mod images;
mod ledger;
pub mod machines;
mod namespace_proxy;
mod netns;
mod node;
pub mod pods;
pub mod pool;
pub mod python;
mod requests;
mod skip;
mod wait;

pub use campaign::rounds;
pub use capture::{Capture, CapturedPackets, Marked};
pub use cli::{Cli, CommandOutput};
pub use daemon::{Daemon, DaemonBuilder};
pub use disk::SmallDisk;
pub use gate::Gate;
pub use host::{Host, Traces};
pub use https::{Https, HttpsResponse};
pub use ledger::{Ledger, Run, boot_time};
pub use namespace_proxy::NamespaceProxy;
pub use netns::NetworkNamespace;
pub use node::{Node, all};
pub use requests::{cell, cell_with, executable, executable_with, field_of, refused, supervised};
pub use skip::{REQUIRE_ALL, skip};
pub use wait::{TEST_TIMEOUT, holds, same, wait_for, wait_for_blocking};

pub use serde_json;
pub use strata_api::controller;
pub use strata_api::kaas;
pub use strata_api::observe;
pub use strata_api::operations::v1 as operations;
pub use strata_api::runtime;
pub use strata_api::scheduler;
pub use strata_api::strata::v1;
pub use strata_client::{NodeClient, ServerClient, Target};
pub use strata_identity::Credentials;
pub use tonic::{Code, Status, Streaming};
