//! One server with its CA and tokens, and clients with whatever proof.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_identity::{
    Authority, CertificateSpec, Clock, Credentials, Expect, LiveIdentity, Tokens, client_config,
    server_config_optional_client,
};
use strata_scheduler::{Overcommit, Settings};
use strata_server::core::{Core, CoreSettings, Lead, Range};
use strata_server::faces::ControllerFace;
use strata_server::faces::scheduler::NodeFace;
use strata_server::link::{AssignmentsFace, Tunnels};
use strata_server::reconcile::start_liveness;
use strata_server::{Build, Faces, IdentityFace, Metrics};
use strata_store::Memory;
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
    pub(crate) core: Core,
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap()).await
    }

    /// Over what is in this folder.
    pub(crate) async fn over(folder: TempDir) -> Self {
        let authority = Arc::new(Authority::open(&folder.path().join("ca")).unwrap());
        let tokens = Arc::new(Tokens::open(&folder.path().join("tokens.json")).unwrap());
        let spec = CertificateSpec::server("server".parse().unwrap());
        let identity = Arc::new(LiveIdentity::new(&authority.issue(&spec).unwrap()).unwrap());
        let tls =
            server_config_optional_client(&authority.ca_pem(), identity, Clock::system()).unwrap();
        let shutdown = CancellationToken::new();
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(10),
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: true,
            bounds: Default::default(),
        };
        let store = Arc::new(Memory::new());
        let core = Core::open(store, settings, shutdown.clone()).await.unwrap();
        core.set_lead(Lead::Leading(None));
        start_liveness(core.clone(), shutdown.clone());
        let gate =
            Gate::new(Some(tokens.clone()), Clock::system()).with_revocations(core.revocations());
        let face = IdentityFace::new(authority.clone(), tokens.clone()).with_core(core.clone());
        let build = Build {
            version: "1.2.3".into(),
            ..Build::default()
        };
        let links = AssignmentsFace::new(core.clone(), Tunnels::default(), shutdown.clone());
        let faces = Faces::new(Arc::new(Metrics::new(gate.refusals(), build)))
            .grpc(face.service())
            .grpc(links.service())
            .grpc(NodeFace::new(core.clone()).service())
            .grpc(ControllerFace::new(core.clone()).service());
        let app = faces.router().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_tls(listener, tls, app, gate, shutdown.clone()));
        Self {
            _folder: folder,
            authority,
            tokens,
            core,
            address,
            shutdown,
        }
    }

    /// Waits until a node that leaves is gone.
    pub(crate) async fn is_gone(&self, node: &str) {
        let mut changes = self.core.watch_all();
        let gone = async {
            while self.core.node(node).is_ok() {
                let _ = changes.recv().await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
        gone.expect("it goes");
    }

    pub(crate) fn issue(&self, name: &str, role: Role) -> Credentials {
        let spec = CertificateSpec::caller(name.parse().unwrap(), role);
        self.authority.issue(&spec).unwrap()
    }

    pub(crate) fn config(&self, credentials: Option<&Credentials>) -> ClientConfig {
        let identity = credentials.map(|it| Arc::new(LiveIdentity::new(it).unwrap()));
        let ca = &self.authority.ca_pem();
        client_config(ca, identity, Expect::Server, Clock::system()).unwrap()
    }

    pub(crate) async fn tls(&self, config: ClientConfig) -> TlsStream<TcpStream> {
        tls_to(self.address, config).await
    }

    pub(crate) async fn channel(&self, config: ClientConfig) -> Channel {
        channel_to(self.address, config).await
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

async fn tls_to(address: SocketAddr, config: ClientConfig) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let host = "localhost".to_owned().try_into().unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(host, stream).await.unwrap()
}

/// A channel over one connection to this address.
pub(crate) async fn channel_to(address: SocketAddr, config: ClientConfig) -> Channel {
    let mut stream = Some(TokioIo::new(tls_to(address, config).await));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take();
        std::future::ready(stream.ok_or(io::Error::from(io::ErrorKind::NotConnected)))
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.unwrap()
}
