//! How new what is read is: every answer names the revision that it is of,
//! and what may be too old is refused.
//!
//! - `Strata-Revision`: the revision of the records that the answer is from.
//! - `?consistent=true`: at least as new as the request.
//! - `?stale=ok`: as this server knows it, however old.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, Method, Uri};
use strata_types::Error;

use super::RestState;
use super::rejection::Rejection;

const REVISION: HeaderName = HeaderName::from_static("strata-revision");

/// What a caller requires of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Consistency {
    /// No older than a bound.
    #[default]
    Bounded,
    /// No older than the request.
    Latest,
    /// Of any age.
    Stale,
}

/// Answers from records that are new enough.
pub(super) async fn bound(
    State(state): State<RestState>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(rejection) = check(&state, &mut request).await {
        return rejection.into_response();
    }
    let revision = state.core.revision();
    let mut response = next.run(request).await;
    // After a write it is of that or later.
    let revision = revision.max(match response.status().is_success() {
        true => state.core.revision(),
        false => revision,
    });
    response
        .headers_mut()
        .insert(REVISION, HeaderValue::from(revision));
    response
}

async fn check(state: &RestState, request: &mut Request) -> Result<(), Rejection> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(());
    }
    let (consistency, uri) = consistency(request.uri())?;
    *request.uri_mut() = uri;
    match consistency {
        Consistency::Bounded => Ok(state.core.check_fresh()?),
        Consistency::Latest => Ok(state.core.catch_up().await?),
        Consistency::Stale => Ok(()),
    }
}

/// The consistency that a query requests, and the address without it.
fn consistency(uri: &Uri) -> Result<(Consistency, Uri), Error> {
    let mut asked = Consistency::default();
    let mut rest = Vec::new();
    for part in uri.query().unwrap_or_default().split('&') {
        asked = match part.split_once('=').unwrap_or((part, "")) {
            ("consistent", "true") => Consistency::Latest,
            ("consistent", "false") => asked,
            ("consistent", _) => {
                return Err(Error::invalid("consistent", "must be true or false"));
            }
            ("stale", "ok") => Consistency::Stale,
            ("stale", _) => return Err(Error::invalid("stale", "must be ok")),
            _ => {
                rest.push(part);
                asked
            }
        };
    }
    if asked == Consistency::default() {
        return Ok((asked, uri.clone()));
    }
    let path = match rest.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), rest.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    let path = path.parse();
    parts.path_and_query = Some(path.map_err(|_| Error::invalid("query", "cannot be read"))?);
    let uri = Uri::from_parts(parts).map_err(|_| Error::invalid("query", "cannot be read"))?;
    Ok((asked, uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_is_taken_out_of_the_query() {
        for (text, expected, left) in [
            ("/node", Consistency::Bounded, "/node"),
            ("/node?limit=3", Consistency::Bounded, "/node?limit=3"),
            ("/node?consistent=true", Consistency::Latest, "/node"),
            (
                "/node?limit=3&stale=ok&offset=1",
                Consistency::Stale,
                "/node?limit=3&offset=1",
            ),
        ] {
            let (found, uri) = consistency(&text.parse().unwrap()).unwrap();
            assert_eq!((found, uri.to_string().as_str()), (expected, left));
        }
        for refused in ["/node?consistent=maybe", "/node?stale=yes"] {
            assert!(consistency(&refused.parse().unwrap()).is_err());
        }
    }
}
