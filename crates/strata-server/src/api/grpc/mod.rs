//! The gRPC services of the control plane, one module per published service.

mod clusters;
mod controller;
mod identity;
mod instances;
mod operations;
pub mod scheduler;

/// The largest request: a specification with what is given to its instance. As
/// much as a body of REST may have.
pub(crate) const MAX_REQUEST_BYTES: usize = 256 * 1024;

pub use clusters::ClusterApi;
pub use controller::ControllerApi;
pub use identity::IdentityApi;
pub use instances::NodeInstancesApi;
pub use operations::OperationsApi;
