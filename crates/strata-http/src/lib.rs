//! The HTTP client of whatever is not Strata: registries, buckets, BMCs, MAAS
//! regions, Kubernetes API servers. One TLS stack, one pool, one way through
//! a proxy, and bounds for what the other side may do. What a request means,
//! how it authenticates and when it is repeated is up to those who send it.

mod client;
mod connector;
mod error;
mod response;
mod trust;
mod uri;

pub use client::{Client, ClientOptions, Error};
pub use connector::Connector;
pub use error::{Failure, root_cause};
pub use response::{collect, one_line, retry_after};
pub use trust::{Trust, TrustError, system_bundles};
pub use uri::{follow_redirect, form, origin, percent_encode};
