//! A server with its CA, tokens and clock, and clients of every kind.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, put};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use strata_identity::policy::{ANYONE, HttpRoute, NAMED, OPERATE, Policy, READ};
use strata_identity::{
    Ca, Caller, CertificateSpec, Clock, Credentials, Expect, LiveIdentity, Name, Tokens,
    client_config, server_config_optional_client,
};
use strata_transport::{AuthLayer, Budgets, CallerLimits, Limits, Serve};
use strata_types::Role;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A clock that stands still until the test moves it.
#[derive(Clone)]
pub(crate) struct Time(Arc<AtomicI64>);

impl Time {
    pub(crate) fn clock(&self) -> Clock {
        let now = self.0.clone();
        Clock::from_fn(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap())
    }

    pub(crate) fn pass_days(&self, days: i64) {
        self.0.fetch_add(days * 86_400, Ordering::SeqCst);
    }
}

pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) time: Time,
    pub(crate) authority: Ca,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) identity: Arc<LiveIdentity>,
    pub(crate) auth: AuthLayer,
}

/// The HTTP routes that tests serve.
pub(crate) const POLICY: Policy = Policy::new(&[
    HttpRoute::new("GET", "/healthz", ANYONE),
    HttpRoute::new("GET", "/version", NAMED).in_projects(),
    HttpRoute::new("GET", "/instance", NAMED).in_projects(),
    HttpRoute::new("PUT", "/instance", OPERATE).in_projects(),
    HttpRoute::new("GET", "/instance/{id}", NAMED).in_projects(),
    HttpRoute::new("DELETE", "/instance/{id}", OPERATE).in_projects(),
    HttpRoute::new("POST", "/instance/{id}/exec", OPERATE).in_projects(),
    HttpRoute::new("GET", "/event", READ).in_projects(),
    HttpRoute::new("GET", "/node", READ),
    HttpRoute::new("GET", "/operation", READ),
]);

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let time = Time(Arc::new(AtomicI64::new(1_800_000_000)));
        let authority = Ca::open_with_clock(&directory.path().join("ca"), time.clock()).unwrap();
        let file = directory.path().join("tokens.json");
        let tokens = Arc::new(Tokens::open_with_clock(&file, time.clock()).unwrap());
        let server = authority
            .issue(&CertificateSpec::server(name("server")))
            .unwrap();
        Self {
            identity: Arc::new(LiveIdentity::new(&server).unwrap()),
            auth: AuthLayer::new(POLICY, Some(tokens.clone()), time.clock()),
            directory,
            time,
            authority,
            tokens,
        }
    }

    pub(crate) async fn serve(&self) -> Server {
        self.serve_with(app(), Limits::default()).await
    }

    pub(crate) async fn serve_with(&self, app: axum::Router, limits: Limits) -> Server {
        let budgets = Budgets::new(&limits, CallerLimits::default());
        self.serve_within(app, limits, budgets).await
    }

    pub(crate) async fn serve_within(
        &self,
        app: axum::Router,
        limits: Limits,
        budgets: Budgets,
    ) -> Server {
        let ca = &self.authority.ca_pem();
        let tls =
            server_config_optional_client(ca, self.identity.clone(), self.time.clock()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serve = Serve::new(app, self.auth.clone())
            .with_limits(limits)
            .with_budgets(budgets);
        let task = tokio::spawn(serve.tls(listener, tls, shutdown.clone()));
        Server {
            address,
            shutdown,
            task,
        }
    }

    pub(crate) fn issue(&self, role: Role) -> Credentials {
        let spec = CertificateSpec::caller(name("somebody"), role);
        self.authority.issue(&spec).unwrap()
    }

    /// A connector that shows these credentials and trusts this world's CA.
    pub(crate) fn connector(&self, credentials: Option<&Credentials>) -> TlsConnector {
        let identity = credentials.map(|it| Arc::new(LiveIdentity::new(it).unwrap()));
        let ca = &self.authority.ca_pem();
        let config = client_config(ca, identity, Expect::Server, self.time.clock()).unwrap();
        Arc::new(config).into()
    }

    pub(crate) fn caller(&self, role: Role) -> TlsConnector {
        self.connector(Some(&self.issue(role)))
    }

    pub(crate) fn anonymous(&self) -> TlsConnector {
        self.connector(None)
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn tls(&self, connector: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let host = "localhost".to_owned().try_into().unwrap();
        connector.connect(host, stream).await
    }

    pub(crate) async fn http(&self, connector: &TlsConnector) -> io::Result<Http> {
        Http::over(self.tls(connector).await?).await
    }

    pub(crate) async fn grpc(&self, connector: &TlsConnector) -> Channel {
        let stream = self.tls(connector).await.unwrap();
        grpc_over(stream).await
    }
}

/// A gRPC channel on a connection that is there already.
pub(crate) async fn grpc_over<S>(stream: S) -> Channel
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take();
        std::future::ready(stream.ok_or(io::Error::from(io::ErrorKind::NotConnected)))
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.unwrap()
}

/// One HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Http(SendRequest<Full<Bytes>>);

impl Http {
    pub(crate) async fn over<S>(stream: S) -> io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let executor = TokioExecutor::new();
        let (send, connection) =
            hyper::client::conn::http2::handshake(executor, TokioIo::new(stream))
                .await
                .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self(send))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(request(Method::GET, path)).await.unwrap()
    }

    pub(crate) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<Answer> {
        let response = self.begin(request).await?;
        self.finish(response).await
    }

    /// Only the head of the answer; nothing of its body is read.
    pub(crate) async fn begin(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        self.0.ready().await?;
        self.0.send_request(request).await
    }

    /// The rest of it.
    pub(crate) async fn finish(&self, response: http::Response<Incoming>) -> hyper::Result<Answer> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

pub(crate) fn request(method: Method, path: &str) -> http::Request<Full<Bytes>> {
    let uri = format!("https://localhost{path}");
    let request = http::Request::builder().method(method).uri(uri);
    request.body(Full::default()).unwrap()
}

pub(crate) fn bearing(
    mut request: http::Request<Full<Bytes>>,
    value: &str,
) -> http::Request<Full<Bytes>> {
    request
        .headers_mut()
        .append("authorization", value.parse().unwrap());
    request
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

/// Routes of the policy with the simplest of handlers, and gRPC health.
pub(crate) fn app() -> axum::Router {
    let (_, health) = tonic_health::server::health_reporter();
    tonic::service::Routes::new(health)
        .into_axum_router()
        .route("/healthz", get(async || "ok"))
        .route("/version", get(who))
        .route("/instance/", put(async || StatusCode::CREATED))
}

/// Answers with what a handler sees of its caller.
async fn who(request: Request<Body>) -> String {
    let secret = request.headers().contains_key("authorization");
    match request.extensions().get::<Caller>() {
        Some(caller) => format!("{} {} {} {secret}", caller.role, caller.name, caller.proof),
        None => "nobody".to_owned(),
    }
}
