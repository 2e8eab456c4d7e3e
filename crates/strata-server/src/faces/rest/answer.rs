//! What is answered when all is well: one thing with its tag, or a piece of
//! a list with how many there are.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, HeaderName, LOCATION};
use http::{HeaderValue, StatusCode};
use serde::{Serialize, Serializer};
use strata_api::rest::TOTAL;
use strata_store::Revision;
use strata_types::Error;

use super::etag::etag;
use super::refusal::{Answer, Refusal};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The JSON of something.
pub(super) fn text(thing: &impl Serialize) -> Answer<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, thing).map_err(|error| {
        Refusal::from(Error::internal(format!(
            "the answer cannot be told: {error}"
        )))
    })?;
    Ok(text)
}

/// Something in JSON.
pub(super) fn json(thing: &impl Serialize) -> Answer {
    Ok(([(CONTENT_TYPE, JSON)], text(thing)?).into_response())
}

/// One thing with its tag.
pub(super) fn one(status: StatusCode, revision: Revision, thing: &impl Serialize) -> Answer {
    let headers = [(CONTENT_TYPE, JSON), (ETAG, etag(revision))];
    Ok((status, headers, text(thing)?).into_response())
}

/// A thing that was made, or was there already just so.
pub(super) fn made(
    is_new: bool,
    location: &str,
    revision: Revision,
    thing: &impl Serialize,
) -> Answer {
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let mut response = one(status, revision, thing)?;
    let location = HeaderValue::from_str(location)
        .map_err(|_| Refusal::from(Error::internal("a location is no header")))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// A piece of a list, and how many there are.
pub(super) fn list<T: Serialize>(total: usize, items: impl Iterator<Item = T>) -> Answer {
    let total = HeaderValue::from(total);
    let name = HeaderName::from_static(TOTAL);
    let headers = [(CONTENT_TYPE, JSON), (name, total)];
    Ok((headers, text(&Items(std::cell::Cell::new(Some(items))))?).into_response())
}

/// Items that are made while they are written.
struct Items<I>(std::cell::Cell<Option<I>>);

impl<T: Serialize, I: Iterator<Item = T>> Serialize for Items<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// It will be so.
pub(super) fn accepted() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// The caller has it already.
pub(super) fn unchanged(revision: Revision) -> Response {
    let headers = [(ETAG, etag(revision))];
    (StatusCode::NOT_MODIFIED, headers, Body::empty()).into_response()
}
