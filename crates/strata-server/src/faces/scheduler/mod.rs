//! Package `scheduler`, as published: nodes that register and tell their
//! status, instances that are created, started, stopped and destroyed.

mod instances;
pub mod nodes;
mod status_queue;

use strata_identity::Caller;
use strata_types::{Error, ErrorKind, Result};
use tonic::Request;

use crate::core::Who;
pub use instances::InstanceFace;
pub use nodes::NodeFace;

/// Who calls.
pub(crate) fn who<T>(request: &Request<T>) -> Result<Who> {
    let nobody = || Error::new(ErrorKind::Unauthenticated, "nobody has said who calls");
    let caller = request.extensions().get::<Caller>().ok_or_else(nobody)?;
    Ok(Who::from(caller))
}
