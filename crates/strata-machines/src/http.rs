//! A small HTTP client for BMCs and MAAS regions. Both are on networks that are
//! not supervised, so all is bounded: time, the size of an answer, and where
//! credentials may go: to the origin they are for. Redirects are not followed.

mod address;
mod error;

use std::path::Path;
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use serde::de::DeserializeOwned;
use strata_http::{ClientOptions, Trust};

pub(crate) use address::Address;
pub(crate) use error::HttpError;
pub(crate) use strata_http::{form, one_line};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which certificates to trust: those of the system's CAs, of one CA in a file,
/// or, when so configured, any.
pub(crate) fn trust(ca_file: Option<&Path>, insecure: bool) -> Trust {
    match ca_file {
        _ if insecure => Trust::Anyone,
        Some(file) => Trust::File(file.to_owned()),
        None => Trust::default(),
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpResponse {
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
    http: strata_http::Client<Full<Bytes>>,
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
    /// For this origin, trusting what is configured.
    pub(crate) fn new(address: Address, trust: &Trust, limits: Limits) -> Result<Self, HttpError> {
        if !address.is_tls() && !matches!(trust, Trust::Anyone) {
            return Err(HttpError::Clear(address.origin().to_owned()));
        }
        let config = trust.config()?;
        let http = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT.min(limits.timeout),
            idle_timeout: Duration::from_secs(5),
            allow_http: true,
            ..ClientOptions::default()
        }
        .client(config);
        Ok(Self {
            http,
            address,
            limits,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request to a path of the origin, with this credential, and reads
    /// the whole answer. The path may come from the other side: it cannot lead
    /// to another origin.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        proof: HeaderValue,
        headers: &[(&'static str, String)],
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<HttpResponse, HttpError> {
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

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<HttpResponse, HttpError> {
        let host = self.address.origin();
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| HttpError::of(host, &error))?;
        let (head, body) = answer.into_parts();
        let largest = self.limits.largest;
        let body = strata_http::collect(body, largest).await;
        let body = body.map_err(|error| HttpError::of_body(host, error.as_ref(), largest))?;
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}
