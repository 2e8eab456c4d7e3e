//! Package `scheduler`, as published: nodes that register and report their
//! status, instances that are created, started, stopped and destroyed.

mod instances;
pub mod nodes;
mod status_queue;

use strata_identity::Caller;
use strata_types::{Error, ErrorKind, Result};
use tonic::Request;

use crate::core::Principal;
pub use instances::InstanceApi;
pub use nodes::NodeApi;

/// The principal of a request.
pub(crate) fn principal_of<T>(request: &Request<T>) -> Result<Principal> {
    let nobody = || Error::new(ErrorKind::Unauthenticated, "no credentials presented");
    let caller = request.extensions().get::<Caller>().ok_or_else(nobody)?;
    Ok(Principal::from(caller))
}
