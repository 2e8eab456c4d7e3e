//! One request and its answer, bounded in time and size.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_api::rest::TOTAL;
use tonic::body::Body;
use tonic::service::interceptor::ResponseBody;
use tower::ServiceExt as _;

use super::problem;
use crate::connection::Connection;
use crate::error::{Error, Result};

/// How long an answer may take. What takes longer is followed by watching.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read: a thousand large objects.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// The body of an answer.
pub(super) type Incoming = ResponseBody<Body>;

/// A request under construction.
pub(super) struct Call<'a> {
    pub(super) connection: &'a Connection,
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) accept: &'static str,
    pub(super) body: Option<(&'static str, Bytes)>,
    pub(super) if_match: Option<&'a str>,
}

/// What came back, read.
pub(super) struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn new(connection: &'a Connection, method: Method, target: String) -> Self {
        Self {
            connection,
            method,
            target,
            accept: "application/json",
            body: None,
            if_match: None,
        }
    }

    /// With `value` as its body.
    pub(super) fn with(mut self, media: &'static str, value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(|why| self.unusable(&why))?;
        self.body = Some((media, body.into()));
        Ok(self)
    }

    /// Sends it and reads the whole answer.
    pub(super) async fn send(self) -> Result<Answer> {
        let connection = self.connection;
        let work = async {
            let response = self.open().await?;
            let (parts, body) = response.into_parts();
            Ok(Answer {
                headers: parts.headers,
                body: read(connection, body).await?,
            })
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Lost {
                address: connection.address().clone(),
                reason: format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
            }),
        }
    }

    /// Sends it; what says no is an error. The body is still to come.
    pub(super) async fn open(self) -> Result<Response<Incoming>> {
        let connection = self.connection;
        let request = self.request()?;
        let response = connection
            .channel()
            .oneshot(request)
            .await
            .map_err(|why| connection.broken(&why))?;
        let status = response.status();
        let media = media(response.headers());
        if media.starts_with("application/grpc") {
            return Err(Error::Answer(problem::foreign(status)));
        }
        if status.is_success() {
            return Ok(response);
        }
        let body = read(connection, response.into_body()).await?;
        Err(Error::Answer(problem::error(status, &body)))
    }

    fn request(self) -> Result<Request<Body>> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&*self.target)
            .header(ACCEPT, self.accept);
        if let Some(tag) = self.if_match {
            request = request.header(IF_MATCH, tag);
        }
        let body = match &self.body {
            Some((media, body)) => {
                request = request.header(CONTENT_TYPE, *media);
                Body::new(Full::new(body.clone()))
            }
            None => Body::empty(),
        };
        request.body(body).map_err(|why| self.unusable(&why))
    }

    fn unusable(&self, why: &dyn std::error::Error) -> Error {
        let what = format!("cannot send {} {}: {why}", self.method, self.target);
        Error::Answer(strata_types::Error::invalid("request", what))
    }
}

impl Answer {
    /// The object in it.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|why| unreadable(&why))
    }

    /// How many items the list has that this is a page of.
    pub(super) fn total(&self) -> Option<usize> {
        self.headers.get(TOTAL)?.to_str().ok()?.parse().ok()
    }

    /// The version of the object in it.
    pub(super) fn etag(&self) -> Option<String> {
        let tag = self.headers.get(ETAG)?.to_str().ok()?;
        Some(tag.to_owned())
    }
}

/// An answer that is no such object: another version of the product, or none
/// of it.
pub(super) fn unreadable(why: &dyn std::error::Error) -> Error {
    let what = format!("cannot parse its response: {why}");
    Error::Answer(
        strata_types::Error::internal(what)
            .with_hint("compare `strata version` here with the server's"),
    )
}

async fn read(connection: &Connection, body: Incoming) -> Result<Bytes> {
    let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
    let body = body.map_err(|why| connection.broken(why.as_ref()))?;
    Ok(body.to_bytes())
}

fn media(headers: &HeaderMap) -> &str {
    let media = headers.get(CONTENT_TYPE);
    media.and_then(|media| media.to_str().ok()).unwrap_or("")
}
