//! Opens the byte stream that gRPC runs on: a Unix socket, or TLS over TCP.

use std::io;
use std::sync::Arc;

use http::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// How to open a stream, with all that is needed for it.
#[derive(Clone)]
pub(crate) enum Transport {
    Unix(std::path::PathBuf),
    Tls(Uri, Arc<ClientConfig>),
}

/// Either kind of stream.
pub(crate) type Stream = Either<UnixStream, Box<TlsStream<TcpStream>>>;

pub(crate) async fn open(way: Transport) -> io::Result<Stream> {
    match way {
        Transport::Unix(path) => UnixStream::connect(path).await.map(Either::Left),
        Transport::Tls(uri, config) => {
            let host = uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let port = uri.port_u16().unwrap_or(crate::Address::DEFAULT_PORT);
            let tcp = TcpStream::connect((host, port)).await?;
            tcp.set_nodelay(true)?;
            let tls = TlsConnector::from(config).connect(name, tcp).await?;
            Ok(Either::Right(Box::new(tls)))
        }
    }
}
