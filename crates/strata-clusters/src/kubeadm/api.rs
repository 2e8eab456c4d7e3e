//! A small client of the Kubernetes API, for the few calls that are made here.
//! Any API server of the cluster will do: the one that answered last is called
//! first, and when it does not answer the next one is. All requests are such
//! that it does no harm when two of them arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strata_http::ClientOptions;

use crate::DriverError;

/// What one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer that is read: all pods of a full cluster.
const MAX_BYTES: usize = 64 << 20;

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Why the API did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("{0}")]
    Silent(String),
    #[error("{status}: {message}")]
    Answered { status: StatusCode, message: String },
}

impl ApiError {
    pub(super) fn is(&self, code: StatusCode) -> bool {
        matches!(self, Self::Answered { status, .. } if *status == code)
    }
}

impl From<ApiError> for DriverError {
    fn from(error: ApiError) -> Self {
        let text = error.to_string();
        match error {
            // A server that is coming up, or has lost its etcd for a moment.
            ApiError::Answered { status, .. }
                if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS =>
            {
                Self::Refused(text)
            }
            _ => Self::Silent(text),
        }
    }
}

type Http = strata_http::Client<Full<Bytes>>;

/// The API of one cluster, by the servers that were known when it was made.
#[derive(Clone)]
pub(super) struct Api {
    http: Http,
    servers: Vec<String>,
    last: Arc<AtomicUsize>,
}

/// What connections are made with.
fn client(config: ClientConfig) -> Http {
    // All of them have this name, whatever their addresses.
    let name = ServerName::try_from("kubernetes").unwrap_or(ServerName::from(
        std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST),
    ));
    ClientOptions {
        connect_timeout: CONNECT_TIMEOUT,
        server_name: Some(name),
        ..ClientOptions::default()
    }
    .client(config)
}

impl Api {
    /// With this certificate, of no server yet.
    pub(super) fn new(config: ClientConfig) -> Self {
        Self {
            http: client(config),
            servers: Vec::new(),
            last: Default::default(),
        }
    }

    /// The same over these servers, `ADDRESS:PORT`, by the same connections.
    pub(super) fn over(&self, servers: Vec<String>) -> Self {
        Self {
            servers,
            ..self.clone()
        }
    }

    /// What is at a path.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let body = self.text(path).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ApiError::Silent(format!("{path} cannot be read: {error}")))
    }

    /// The same, as it comes.
    pub(super) async fn text(&self, path: &str) -> Result<Bytes, ApiError> {
        self.send(Method::GET, path, JSON, None).await
    }

    /// Makes something. One that is there already is fine.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<(), ApiError> {
        match self.send(Method::POST, path, JSON, Some(object)).await {
            Err(error) if error.is(StatusCode::CONFLICT) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Creates an object; the answer is read only for its status.
    pub(super) async fn post(&self, path: &str, object: &Value) -> Result<(), ApiError> {
        let sent = self.send(Method::POST, path, JSON, Some(object)).await;
        sent.map(drop)
    }

    /// Changes what is named in `change` and leaves the rest.
    pub(super) async fn patch(&self, path: &str, change: &Value) -> Result<(), ApiError> {
        let sent = self.send(Method::PATCH, path, MERGE, Some(change)).await;
        sent.map(drop)
    }

    /// Deletes something. One that is gone already is fine.
    pub(super) async fn delete(&self, path: &str) -> Result<(), ApiError> {
        match self.send(Method::DELETE, path, JSON, None).await {
            Err(error) if error.is(StatusCode::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, ApiError> {
        let mut why = ApiError::Silent("no API server is known".into());
        let first = self.last.load(Ordering::Relaxed);
        for turn in 0..self.servers.len() {
            let at = (first + turn) % self.servers.len();
            let Some(server) = self.servers.get(at) else {
                continue;
            };
            let asked = self.call_any(server, &method, path, kind, body);
            let answer = tokio::time::timeout(REQUEST_TIMEOUT, asked).await;
            match answer.unwrap_or_else(|_| Err(late(server))) {
                Err(error @ ApiError::Silent(_)) => why = error,
                answered => {
                    self.last.store(at, Ordering::Relaxed);
                    return answered;
                }
            }
        }
        Err(why)
    }

    async fn call_any(
        &self,
        server: &str,
        method: &Method,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, ApiError> {
        let silent = |error: &dyn std::error::Error| silent(server, &strata_types::chain(error));
        let body = body.map(|value| Bytes::from(value.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{server}{path}"))
            .header(USER_AGENT, "strata")
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, kind)
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| silent(&error))?;
        let answer = self.http.request(request).await;
        let (head, body) = answer.map_err(|error| silent(&error))?.into_parts();
        let body = strata_http::collect(body, MAX_BYTES).await;
        let body = body.map_err(|error| silent(error.as_ref()))?;
        if head.status.is_success() {
            return Ok(body);
        }
        Err(ApiError::Answered {
            status: head.status,
            message: message(&body),
        })
    }
}

fn silent(server: &str, why: &str) -> ApiError {
    ApiError::Silent(format!("{server}: {why}"))
}

fn late(server: &str) -> ApiError {
    silent(server, &format!("no answer within {REQUEST_TIMEOUT:?}"))
}

/// The message of a refusal, in a line.
fn message(body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let said = status.as_ref().and_then(|value| value["message"].as_str());
    let text = said.map_or_else(|| String::from_utf8_lossy(body), Into::into);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(500).collect()
}
