//! What is answered when all is well: one thing with its tag, or a piece of
//! a list with how many there are.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, HeaderName, LOCATION};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use strata_api::rest::TOTAL;
use strata_store::Revision;
use strata_types::Error;

use super::etag::etag;
use super::rejection::{Answer, Rejection};

/// The largest piece of a list, if one item is not larger by itself.
const MAX_PAGE_BYTES: usize = 4 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The JSON of something.
pub(super) fn text(thing: &impl Serialize) -> Answer<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, thing).map_err(|error| not_encoded(&error))?;
    Ok(text)
}

fn not_encoded(error: &serde_json::Error) -> Rejection {
    let why = format!("the response cannot be encoded: {error}");
    Error::internal(why).into()
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
        .map_err(|_| Rejection::from(Error::internal("a location is not a header")))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// A piece of a list, and how many there are. It ends before the item that
/// would make it larger than [`MAX_PAGE_BYTES`]: the next one begins at the
/// offset of this one and as many as it has.
pub(super) fn list<T: Serialize>(total: usize, items: impl Iterator<Item = T>) -> Answer {
    let total = HeaderValue::from(total);
    let name = HeaderName::from_static(TOTAL);
    let headers = [(CONTENT_TYPE, JSON), (name, total)];
    Ok((headers, page(items, MAX_PAGE_BYTES)?).into_response())
}

/// As many items as so many bytes hold, and one at least.
fn page<T: Serialize>(items: impl Iterator<Item = T>, most: usize) -> Answer<Vec<u8>> {
    let mut page = Vec::with_capacity(1024);
    page.push(b'[');
    for (n, item) in items.enumerate() {
        let end = page.len();
        if n > 0 {
            page.push(b',');
        }
        serde_json::to_writer(&mut page, &item).map_err(|error| not_encoded(&error))?;
        if n > 0 && page.len() > most {
            page.truncate(end);
            break;
        }
    }
    page.push(b']');
    Ok(page)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ends_before_it_is_too_large_and_has_one_item_at_least() {
        let of = |items: &[&str], most| {
            let text = page(items.iter(), most).ok().unwrap();
            serde_json::from_slice::<Vec<String>>(&text).unwrap()
        };
        assert_eq!(of(&[], 0), [""; 0]);
        assert_eq!(of(&["aaaa", "b"], 3), ["aaaa"]);
        assert_eq!(of(&["aaaa", "b", "c"], 11), ["aaaa", "b"]);
        assert_eq!(of(&["aaaa", "b", "c"], 15), ["aaaa", "b", "c"]);
    }
}
