//! The identity of this server to a cluster, and the CA that it trusts there:
//! both by the cluster's own CA.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use strata_types::Secret;

use super::pki;
use crate::DriverError;

/// How long such a certificate is good for. It is made again in time.
pub(super) const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// The name that the certificates are made for.
const NAME: &str = "strata";

/// For the API servers or the members of etcd, by their CA. The group may do
/// everything; etcd does not check it.
pub(super) fn config(
    secrets: &BTreeMap<String, Secret>,
    ca: &str,
) -> Result<ClientConfig, DriverError> {
    let wrong = |error: &dyn std::fmt::Display| DriverError::Secrets {
        what: "TLS to the cluster".into(),
        why: error.to_string(),
    };
    let group = Some("system:masters");
    let identity = pki::client(secrets, ca, NAME, group, LIFETIME)?;
    let mut roots = RootCertStore::empty();
    let trusted = pki::der(pki::of(secrets, &format!("{ca}.crt"))?)?;
    roots.add(trusted).map_err(|error| wrong(&error))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes());
    let key = key.map_err(|error| wrong(&error))?;
    let chain = vec![pki::der(&identity.certificate)?];
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| wrong(&error))
}
