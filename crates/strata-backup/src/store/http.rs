//! The network under an S3 store: the one HTTP client and the one TLS stack
//! that the rest of the program has, instead of those that the store's
//! library would bring.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{BackupError, Result};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a store may take to answer a request, with a pack on its way.
const ANSWER: Duration = Duration::from_secs(300);
/// How long it may send nothing of an answer.
const STALL: Duration = Duration::from_secs(60);
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);

const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A client for one store.
#[derive(Clone, Debug)]
pub(crate) struct Net(Client<HttpsConnector<Tcp>, HttpRequestBody>);

impl Net {
    pub(crate) fn new(authorities: &[String], allow_http: bool) -> Result<Self> {
        let mut tcp = Tcp::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls(authorities)?);
        let https = if allow_http {
            https.https_or_http()
        } else {
            https.https_only()
        };
        let connector = https.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self(client))
    }

    async fn ask(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(ANSWER, self.0.request(request))
            .await
            .map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?
            .map_err(|error| HttpError::new(kind(&error), error))?;
        let (parts, mut body) = answer.into_parts();
        let mut whole = Vec::new();
        // Answers are packs or pages of names: they fit into memory, and a
        // store that stalls in the middle of one is seen here.
        loop {
            let frame = tokio::time::timeout(STALL, body.frame())
                .await
                .map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
            if let Ok(data) = frame.into_data() {
                whole.extend_from_slice(&data);
            }
        }
        let body = HttpResponseBody::from(Bytes::from(whole));
        Ok(HttpResponse::from_parts(parts, body))
    }
}

impl HttpService for Net {
    fn call<'me, 'future>(
        &'me self,
        request: HttpRequest,
    ) -> BoxFuture<'future, std::result::Result<HttpResponse, HttpError>>
    where
        'me: 'future,
        Self: 'future,
    {
        Box::pin(self.ask(request))
    }
}

impl HttpConnector for Net {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn kind(error: &hyper_util::client::legacy::Error) -> HttpErrorKind {
    if error.is_connect() {
        return HttpErrorKind::Connect;
    }
    let hyper = error
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>());
    match hyper {
        Some(error) if error.is_timeout() => HttpErrorKind::Timeout,
        Some(error) if error.is_closed() || error.is_incomplete_message() => HttpErrorKind::Request,
        _ => HttpErrorKind::Interrupted,
    }
}

fn tls(authorities: &[String]) -> Result<ClientConfig> {
    let settings = |error: &dyn std::fmt::Display| BackupError::Settings {
        detail: error.to_string(),
    };
    let mut roots = RootCertStore::empty();
    if let Some(path) = SYSTEM_AUTHORITIES
        .iter()
        .find(|path| Path::new(path).is_file())
    {
        let found = CertificateDer::pem_file_iter(path).map_err(|error| settings(&error))?;
        // One odd certificate in the system's bundle is no reason to stop.
        roots.add_parsable_certificates(found.flatten());
    }
    for authority in authorities {
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            let certificate = certificate.map_err(|error| settings(&error))?;
            roots.add(certificate).map_err(|error| settings(&error))?;
        }
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| settings(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
