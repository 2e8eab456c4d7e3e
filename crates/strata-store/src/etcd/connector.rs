//! Opens the byte stream to a member: TCP, or TLS over it.

use std::io;
use std::sync::Arc;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tonic::transport::{Channel, Endpoint};

use super::options::{EtcdOptions, EtcdTls};
use crate::StoreError;

/// How often a connection in use is asked whether it is still there. etcd
/// hangs up on those who ask more often than every 5 seconds.
const PING: std::time::Duration = std::time::Duration::from_secs(10);

/// A channel to each member; each connects when it is first used, and again
/// whenever that is needed.
pub(super) fn channels(options: &EtcdOptions) -> Result<Vec<Channel>, StoreError> {
    if options.endpoints.is_empty() {
        return Err(StoreError::Invalid("no member of etcd is named".to_owned()));
    }
    let tls = options.tls.as_ref().map(config).transpose()?;
    let channel = |member: &String| channel(member, tls.clone(), options);
    options.endpoints.iter().map(channel).collect()
}

fn channel(
    member: &str,
    tls: Option<Arc<ClientConfig>>,
    options: &EtcdOptions,
) -> Result<Channel, StoreError> {
    let invalid = |why: &str| StoreError::Invalid(format!("etcd member {member}: {why}"));
    let uri: Uri = member.parse().map_err(|_| invalid("not a URL"))?;
    let tls = match (uri.scheme_str(), tls) {
        (Some("http"), _) => None,
        (Some("https"), Some(tls)) => Some(tls),
        (Some("https"), None) => return Err(invalid("https needs a CA to trust")),
        _ => return Err(invalid("neither http nor https")),
    };
    // To the HTTP layer all is plain: the connector does TLS by itself.
    let authority = uri.authority().ok_or_else(|| invalid("no host"))?;
    let plain = format!("http://{authority}");
    let endpoint = Endpoint::from_shared(plain).map_err(|_| invalid("not a URL"))?;
    let endpoint = endpoint
        .connect_timeout(options.timeout)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(options.timeout)
        .keep_alive_while_idle(false);
    Ok(
        endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
            let tls = tls.clone();
            async move { open(uri, tls).await.map(TokioIo::new) }
        })),
    )
}

fn config(tls: &EtcdTls) -> Result<Arc<ClientConfig>, StoreError> {
    let invalid = |what: &str| StoreError::Invalid(format!("TLS to etcd: {what}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(tls.ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|_| invalid("the CA is not PEM"))?;
        let added = roots.add(certificate);
        added.map_err(|_| invalid("the CA is no certificate"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| invalid("no protocol version"))?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
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
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config.into())
}

/// Plain, or encrypted.
type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

async fn open(uri: Uri, tls: Option<Arc<ClientConfig>>) -> io::Result<Stream> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, uri.port_u16().unwrap_or(2379))).await?;
    tcp.set_nodelay(true)?;
    let Some(config) = tls else {
        return Ok(Either::Left(tcp));
    };
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(config).connect(name, tcp).await?;
    Ok(Either::Right(Box::new(tls)))
}
