//! The network under an S3 store: the one HTTP client and the one TLS stack
//! that the rest of the program has, instead of those that the store's
//! library would bring.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use strata_http::{Client, Trust};

use crate::error::{BackupError, Result};

/// How long a store may take to answer a request, with a pack on its way.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// How long it may send nothing of an answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A client for one store.
#[derive(Clone, Debug)]
pub(crate) struct BoundedClient(Client<HttpRequestBody>);

impl BoundedClient {
    pub(crate) fn new(authorities: &[String], allow_http: bool) -> Result<Self> {
        let trust = Trust::System {
            bundles: strata_http::system_bundles(),
            authorities: authorities.to_vec(),
        };
        let config = trust.config().map_err(|error| BackupError::Settings {
            detail: error.to_string(),
        })?;
        let client = strata_http::ClientOptions {
            allow_http,
            use_proxy: true,
            ..strata_http::ClientOptions::default()
        }
        .client(config);
        Ok(Self(client))
    }

    async fn ask(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.0.request(request))
            .await
            .map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?
            .map_err(|error| HttpError::new(kind(&error), error))?;
        let (parts, mut body) = answer.into_parts();
        let mut whole = Vec::new();
        // Answers are packs or pages of names: they fit into memory, and a
        // store that stalls in the middle of one is seen here.
        loop {
            let frame = tokio::time::timeout(STALL_TIMEOUT, body.frame())
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

impl HttpService for BoundedClient {
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

impl HttpConnector for BoundedClient {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn kind(error: &strata_http::Error) -> HttpErrorKind {
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
