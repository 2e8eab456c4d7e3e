//! The node that calls: by its certificate, of which the key counts and not the
//! name alone. The core holds it against the node's record.

use std::sync::Arc;

use strata_identity::{Caller, CertificateId, Credential};
use strata_types::{Error, ErrorKind, Result, Role};
use tonic::Request;

/// The certificate of the node that calls.
pub(crate) fn calling_node<T>(request: &Request<T>) -> Result<Arc<CertificateId>> {
    let refused = || {
        Error::new(
            ErrorKind::PermissionDenied,
            "only a node can speak of itself; call with a certificate of the role node",
        )
    };
    node_certificate(request)?.ok_or_else(refused)
}

/// The same; none where the caller is no node. A node that shows no certificate
/// is refused: nothing else can prove one.
pub(crate) fn node_certificate<T>(request: &Request<T>) -> Result<Option<Arc<CertificateId>>> {
    let extensions = request.extensions();
    let is_node = |caller: &&Caller| caller.role == Role::Node;
    if extensions.get::<Caller>().filter(is_node).is_none() {
        return Ok(None);
    }
    match extensions.get::<Credential>() {
        Some(Credential::Certificate(id)) if id.role == Role::Node => Ok(Some(id.clone())),
        _ => Err(Error::new(
            ErrorKind::PermissionDenied,
            "a node is known by its certificate alone",
        )),
    }
}
