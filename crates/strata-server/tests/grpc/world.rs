//! One server with its CA and tokens, and clients with whatever proof.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_identity::{
    Ca, CertificateSpec, Clock, Credentials, Expect, LiveIdentity, Tokens, client_config,
    server_config_optional_client,
};
use strata_scheduler::{Overcommit, Settings};
use strata_server::api::grpc::ControllerApi;
use strata_server::api::grpc::scheduler::NodeApi;
use strata_server::core::{Core, CoreSettings, Lead, Range};
use strata_server::link::{AssignmentsApi, Tunnels};
use strata_server::reconcile::start_liveness;
use strata_server::{ApiServer, Build, IdentityApi, Metrics, api};
use strata_store::Memory;
use strata_transport::{AuthLayer, serve_tls};
use strata_types::Role;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct World {
    _folder: TempDir,
    pub(crate) ca: Arc<Ca>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) core: Core,
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap()).await
    }

    /// Over what is in this dir.
    pub(crate) async fn over(dir: TempDir) -> Self {
        Self::over_store(dir, Memory::new()).await
    }

    /// The same, over these records.
    pub(crate) async fn over_store(dir: TempDir, store: Memory) -> Self {
        let ca = Arc::new(Ca::open(&dir.path().join("ca")).unwrap());
        let tokens = Arc::new(Tokens::open(&dir.path().join("tokens.json")).unwrap());
        let spec = CertificateSpec::server("server".parse().unwrap());
        let identity = Arc::new(LiveIdentity::new(&ca.issue(&spec).unwrap()).unwrap());
        let tls = server_config_optional_client(&ca.ca_pem(), identity, Clock::system()).unwrap();
        let shutdown = CancellationToken::new();
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(10),
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: true,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let core = Core::open(Arc::new(store), settings, shutdown.clone())
            .await
            .unwrap();
        core.set_lead(Lead::Leading(None));
        start_liveness(core.clone(), shutdown.clone());
        let gate = AuthLayer::new(api::policy(), Some(tokens.clone()), Clock::system())
            .with_revocations(core.certificates().revocations());
        let identity = IdentityApi::new(ca.clone(), tokens.clone()).with_core(core.clone());
        let build = Build {
            version: "1.2.3".into(),
            ..Build::default()
        };
        let links = AssignmentsApi::new(core.clone(), Tunnels::default(), shutdown.clone());
        let api = ApiServer::new(Arc::new(Metrics::new(gate.refusals(), build)))
            .grpc(identity.service())
            .grpc(links.service())
            .grpc(NodeApi::new(core.clone()).service())
            .grpc(ControllerApi::new(core.clone()).service());
        let app = api.router().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_tls(listener, tls, app, gate, shutdown.clone()));
        Self {
            _folder: dir,
            ca,
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
        self.ca.issue(&spec).unwrap()
    }

    pub(crate) fn config(&self, credentials: Option<&Credentials>) -> ClientConfig {
        let identity = credentials.map(|it| Arc::new(LiveIdentity::new(it).unwrap()));
        let ca = &self.ca.ca_pem();
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
