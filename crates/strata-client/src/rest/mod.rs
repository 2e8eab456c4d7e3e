//! The REST API of a server, typed, over the same connection as its gRPC
//! services: one place to connect, one proof, one set of errors.
//!
//! A [`Resource`] says where its objects are; the client has one method for
//! each thing that can be done with them. Objects are those of
//! `strata_api::rest`, which the server writes.

mod call;
mod clusters;
mod problem;
mod query;
mod resource;
mod route;
mod sse;
mod text;
mod watch;

pub use query::Query;
pub use resource::{RestClient, Tagged};
pub use route::{Hypervisor, Resource};
pub use text::TextStream;
pub use watch::{Change, Watch};
