//! How connections are made and kept.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
pub use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use crate::Connector;

/// A pool of connections. Cheap to clone. Requests are not bounded in time:
/// callers know how long theirs may take.
pub type Client<B> = legacy::Client<HttpsConnector<Connector>, B>;

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Whether requests without TLS are sent at all.
    pub allow_http: bool,
    /// Whether the proxy of the environment is used (`HTTPS_PROXY`,
    /// `NO_PROXY`): for what is on the internet, not for machines of one's own.
    pub use_proxy: bool,
    /// The name that certificates must have, whatever the address.
    pub server_name: Option<ServerName<'static>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            allow_http: false,
            use_proxy: false,
            server_name: None,
        }
    }
}

impl ClientOptions {
    /// A client that trusts what `config` says.
    pub fn client<B>(self, config: ClientConfig) -> Client<B>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        tcp.set_nodelay(true);
        let connector = if self.use_proxy {
            Connector::from_environment(tcp, self.connect_timeout)
        } else {
            Connector::direct(tcp)
        };
        let https = HttpsConnectorBuilder::new().with_tls_config(config);
        let https = if self.allow_http {
            https.https_or_http()
        } else {
            https.https_only()
        };
        let https = match self.server_name {
            Some(name) => https.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => https,
        };
        legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.idle_timeout)
            .build(https.enable_http1().wrap_connector(connector))
    }
}
