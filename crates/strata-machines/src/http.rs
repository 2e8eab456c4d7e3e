//! A small HTTP client for BMCs and MAAS regions. Both are on networks that
//! nobody watches, so all is bounded: time, the size of an answer, and where
//! credentials may go: to the origin they are for. Redirects are not followed.

mod address;
mod error;
mod form;
mod tls;

use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

pub(crate) use address::Address;
pub(crate) use error::HttpError;
pub(crate) use form::form;
pub(crate) use tls::Trust;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON. serde_json itself bounds how deep it nests.
    pub(crate) fn json<T: DeserializeOwned>(&self, host: &str) -> Result<T, HttpError> {
        serde_json::from_slice(&self.body).map_err(|error| HttpError::Nonsense {
            host: host.to_owned(),
            why: error.to_string(),
        })
    }
}

/// A client for one origin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: Address,
    limits: Limits,
}

/// What one request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long, all in all.
    pub(crate) timeout: Duration,
    /// The largest answer that is read, in bytes.
    pub(crate) largest: usize,
}

impl Client {
    /// For this origin, trusting what it is said to trust.
    pub(crate) fn new(address: Address, trust: &Trust, limits: Limits) -> Result<Self, HttpError> {
        if !address.is_tls() && !trust.insecure {
            return Err(HttpError::Clear(address.origin().to_owned()));
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT.min(limits.timeout)));
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(trust)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        Ok(Self {
            http,
            address,
            limits,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request to a path of the origin, with this proof, and reads
    /// the whole answer. What the path is, the other side may have said: it
    /// leads nowhere else.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        proof: HeaderValue,
        headers: &[(&'static str, String)],
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Answer, HttpError> {
        let uri = self.address.join(path)?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(USER_AGENT, "strata")
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, proof);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body = match body {
            Some((kind, bytes)) => {
                request = request.header(CONTENT_TYPE, kind);
                Full::from(bytes)
            }
            None => Full::default(),
        };
        let request = request
            .body(body)
            .map_err(|_| HttpError::Address(path.to_owned()))?;
        let answered = tokio::time::timeout(self.limits.timeout, self.exchange(request)).await;
        answered.map_err(|_| HttpError::Late {
            host: self.address.origin().to_owned(),
            after: self.limits.timeout,
        })?
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, HttpError> {
        let host = self.address.origin();
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| HttpError::of(host, &error))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.limits.largest).collect().await;
        let body =
            body.map_err(|error| HttpError::of_body(host, error.as_ref(), self.limits.largest))?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    }
}

/// What another side says, without what would spoil a terminal or a log.
pub(crate) fn plain(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = one_line.chars().filter(|c| !c.is_control());
    shown.take(300).collect()
}
