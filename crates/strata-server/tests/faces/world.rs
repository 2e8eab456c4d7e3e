//! One server with its CA and tokens, and clients with whatever proof.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_identity::{
    Authority, CertificateSpec, Clock, Credentials, Expect, LiveIdentity, Tokens, client_config,
    server_config_optional_client,
};
use strata_server::{Build, Faces, IdentityFace, Metrics};
use strata_transport::{Gate, serve_tls};
use strata_types::Role;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct World {
    _folder: TempDir,
    pub(crate) authority: Arc<Authority>,
    pub(crate) tokens: Arc<Tokens>,
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Arc::new(Authority::open(&folder.path().join("ca")).unwrap());
        let tokens = Arc::new(Tokens::open(&folder.path().join("tokens.json")).unwrap());
        let spec = CertificateSpec::server("server".parse().unwrap());
        let identity = Arc::new(LiveIdentity::new(&authority.issue(&spec).unwrap()).unwrap());
        let tls =
            server_config_optional_client(authority.ca_pem(), identity, Clock::system()).unwrap();
        let gate = Gate::new(Some(tokens.clone()), Clock::system());
        let face = IdentityFace::new(authority.clone(), tokens.clone());
        let face = face.with_nodes(|name| name == "there");
        let build = Build {
            version: "1.2.3".into(),
            ..Build::default()
        };
        let faces = Faces::new(Arc::new(Metrics::new(gate.refusals(), build))).grpc(face.service());
        let app = faces.router().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(serve_tls(listener, tls, app, gate, shutdown.clone()));
        Self {
            _folder: folder,
            authority,
            tokens,
            address,
            shutdown,
        }
    }

    pub(crate) fn issue(&self, name: &str, role: Role) -> Credentials {
        let spec = CertificateSpec::caller(name.parse().unwrap(), role);
        self.authority.issue(&spec).unwrap()
    }

    pub(crate) fn config(&self, credentials: Option<&Credentials>) -> ClientConfig {
        let identity = credentials.map(|it| Arc::new(LiveIdentity::new(it).unwrap()));
        let ca = self.authority.ca_pem();
        client_config(ca, identity, Expect::Server, Clock::system()).unwrap()
    }

    pub(crate) async fn tls(&self, config: ClientConfig) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let host = "localhost".to_owned().try_into().unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(host, stream).await.unwrap()
    }

    pub(crate) async fn channel(&self, config: ClientConfig) -> Channel {
        let mut stream = Some(TokioIo::new(self.tls(config).await));
        let connector = tower::service_fn(move |_| {
            let stream = stream.take();
            std::future::ready(stream.ok_or(io::Error::from(io::ErrorKind::NotConnected)))
        });
        let endpoint = Endpoint::from_static("http://localhost");
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// A client of the identity service with a certificate of this role.
    pub(crate) async fn caller(&self, role: Role) -> IdentityClient<Channel> {
        let credentials = self.issue("somebody", role);
        IdentityClient::new(self.channel(self.config(Some(&credentials))).await)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
