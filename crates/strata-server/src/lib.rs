//! The control plane: its APIs, its rules, its reconcilers.
//!
//! APIs are thin: they read the request, call the core, map the response. Who
//! may call was decided by the auth layer (`strata-transport`) before.
#![forbid(unsafe_code)]

pub mod api;
pub mod autoscale;
mod build;
mod control;
pub mod core;
mod cron;
pub mod link;
mod metrics;
pub mod operations;
pub mod placement;
pub mod reconcile;
#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod restored;
mod store_exports;

pub use api::grpc::IdentityApi;
pub use api::{ApiServer, ApiServerError};
pub use build::Build;
pub use control::{ControlPlane, ControlPlaneDeps, DriverFactory, StoreConfig, StoreEngine};
pub use metrics::Metrics;
pub use operations::JoinTokens;
pub use restored::{AdoptOptions, adopt_restored_store, carry_revocations};
