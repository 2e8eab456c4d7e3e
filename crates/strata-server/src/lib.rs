//! The control plane: its faces, its rules, its reconcilers.
//!
//! Faces are thin: they read the request, call the core, map the answer. Who
//! may call was decided at the gate (`strata-transport`) before they see it.
#![forbid(unsafe_code)]

pub mod autoscale;
mod build;
mod control;
pub mod core;
mod cron;
pub mod faces;
mod kept_exports;
pub mod link;
mod metrics;
pub mod operations;
pub mod placement;
pub mod reconcile;
#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod restored;

pub use build::Build;
pub use control::{ControlPlane, DriverMaker, Machinery, StoreConfig, StoreEngine};
pub use faces::{Faces, FacesError, IdentityFace};
pub use metrics::Metrics;
pub use operations::JoinTokens;
pub use restored::{BeginAnew, begin_anew, carry_revocations};
