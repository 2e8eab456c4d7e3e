//! One open connection: the channel, the token that goes with every request,
//! and the address for errors.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::metadata::MetadataValue;
use tonic::metadata::errors::InvalidMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use crate::connector::{self, Transport};
use crate::error::{Error, Result};
use crate::{Address, Target, tls};

/// How long the other side gets to accept a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a stream may be under way: a log is read in large steps, and
/// HTTP/2's own 64 kB would make it wait for every one of them.
const STREAM_WINDOW: u32 = 4 << 20;
/// A peer that vanished without a word is noticed after these two.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the generated clients run on.
pub type Channel = InterceptedService<tonic::transport::Channel, Bearer>;

/// Adds `authorization: Bearer …` where the proof is a token.
#[derive(Clone)]
pub struct Bearer(Option<MetadataValue<tonic::metadata::Ascii>>);

impl Bearer {
    fn new(token: Option<&str>) -> std::result::Result<Self, InvalidMetadataValue> {
        let header = token.map(|token| {
            let mut header = MetadataValue::try_from(format!("Bearer {token}"))?;
            header.set_sensitive(true);
            Ok(header)
        });
        header.transpose().map(Self)
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(header) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", header.clone());
        }
        Ok(request)
    }
}

/// An open connection. Clones share it.
#[derive(Clone)]
pub struct Connection {
    address: Address,
    channel: Channel,
}

impl Connection {
    /// Connects, within five seconds.
    pub async fn open(target: &Target) -> Result<Self> {
        let address = target.address();
        let failed = |why: &(dyn std::error::Error + 'static)| Error::connect(&address, why);
        let way = way(target)?;
        // Over a Unix socket the authority means nothing, but HTTP wants one.
        let uri = match &address {
            Address::Https(uri) => uri.clone(),
            Address::Unix(_) => http::Uri::from_static("http://localhost"),
        };
        let token = match target {
            Target::Token { token, .. } => Some(token.as_str()),
            Target::Unix(_) | Target::Tls { .. } | Target::Live { .. } | Target::Join { .. } => {
                None
            }
        };
        let bearer = Bearer::new(token).map_err(|why| failed(&why))?;
        let connect = tower::service_fn(move |_: http::Uri| {
            let open = connector::open(way.clone());
            async move { open.await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from(uri)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(2 * STREAM_WINDOW)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        let connecting = endpoint.connect_with_connector(connect);
        let channel = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected.map_err(|why| failed(&why))?,
            Err(_) => {
                return Err(Error::Connect {
                    address,
                    reason: format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
                    refused: false,
                });
            }
        };
        Ok(Self {
            address,
            channel: InterceptedService::new(channel, bearer),
        })
    }

    /// What it is connected to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What a generated client runs on.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Maps the status of a call on this connection to an error.
    pub fn error(&self, status: &Status) -> Error {
        Error::from_status(&self.address, status)
    }

    /// The error of a connection that broke while an answer was waited for.
    pub(crate) fn broken(&self, source: &(dyn std::error::Error + 'static)) -> Error {
        Error::broken(&self.address, source)
    }
}

fn way(target: &Target) -> Result<Transport> {
    let (address, config) = match target {
        Target::Unix(path) => return Ok(Transport::Unix(path.clone())),
        Target::Tls {
            address,
            credentials,
        } => (address, tls::with_certificate(credentials)),
        Target::Live {
            address,
            ca_pem,
            identity,
        } => (address, tls::with_identity(ca_pem, identity.clone())),
        Target::Token {
            address,
            ca_pem,
            expect,
            ..
        } => (address, tls::without_certificate(ca_pem, *expect)),
        Target::Join {
            address,
            fingerprint,
        } => (address, tls::joining(*fingerprint)),
    };
    match (address, config) {
        (Address::Unix(path), _) => Ok(Transport::Unix(path.clone())),
        (Address::Https(uri), Ok(config)) => Ok(Transport::Tls(uri.clone(), config)),
        (address, Err(why)) => Err(Error::Untrusted {
            address: address.clone(),
            reason: why.line(),
        }),
    }
}
