//! Channels to members: TCP, or TLS over it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tonic::transport::{Channel, Endpoint};

/// Where members listen for clients.
const PORT: u16 = 2379;
/// The interval of keepalives on a connection in use. etcd closes connections
/// with an interval below 5 seconds.
const PING: Duration = Duration::from_secs(10);

/// How a member is reached.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// For members on `https`: what to trust, and our certificate.
    pub tls: Option<Arc<ClientConfig>>,
    /// How long a connection may take, and the answer to a keepalive.
    pub timeout: Duration,
}

/// A member that cannot be reached as it is configured.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidMember(pub &'static str);

/// A channel to a member, `http://HOST[:PORT]` or `https://HOST[:PORT]`. It
/// connects when it is first used, and again whenever that is needed.
pub fn channel(member: &str, options: &ChannelOptions) -> Result<Channel, InvalidMember> {
    let uri: Uri = member.parse().map_err(|_| InvalidMember("not a URL"))?;
    let tls = match (uri.scheme_str(), &options.tls) {
        (Some("http"), _) => None,
        (Some("https"), Some(tls)) => Some(with_http2(tls)),
        (Some("https"), None) => return Err(InvalidMember("https needs a CA to trust")),
        _ => return Err(InvalidMember("neither http nor https")),
    };
    // To the HTTP layer all is plain: the connector does TLS by itself.
    let authority = uri.authority().ok_or(InvalidMember("no host"))?;
    let endpoint = Endpoint::from_shared(format!("http://{authority}"));
    let endpoint = endpoint
        .map_err(|_| InvalidMember("not a URL"))?
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

fn with_http2(tls: &Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(tls);
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

async fn open(uri: Uri, tls: Option<Arc<ClientConfig>>) -> io::Result<Stream> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, uri.port_u16().unwrap_or(PORT))).await?;
    tcp.set_nodelay(true)?;
    let Some(config) = tls else {
        return Ok(Either::Left(tcp));
    };
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(config).connect(name, tcp).await?;
    Ok(Either::Right(Box::new(tls)))
}
