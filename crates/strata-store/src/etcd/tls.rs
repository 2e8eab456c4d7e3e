//! TLS to the members.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::options::EtcdTls;
use crate::StoreError;

pub(super) fn config(tls: &EtcdTls) -> Result<Arc<ClientConfig>, StoreError> {
    let invalid = |what: &str| StoreError::Invalid(format!("TLS to etcd: {what}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(tls.ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|_| invalid("the CA is not PEM"))?;
        let added = roots.add(certificate);
        added.map_err(|_| invalid("the CA is not a certificate"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| invalid("no protocol version"))?
        .with_root_certificates(roots);
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
            let chain: Result<Vec<_>, _> = chain.collect();
            let chain = chain.map_err(|_| invalid("the certificate is not PEM"))?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
            let key = key.map_err(|_| invalid("the key is not PEM"))?;
            let built = builder.with_client_auth_cert(chain, key);
            built.map_err(|_| invalid("certificate and key do not belong together"))?
        }
    };
    Ok(config.into())
}
