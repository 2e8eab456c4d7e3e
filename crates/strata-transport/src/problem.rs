//! The public error over HTTP: `application/problem+json` with the same stable
//! code as in every other API.

use axum::body::Body;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use strata_types::{Error, ErrorKind};

#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// The HTTP status of an error of this kind.
pub const fn status_code(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists | ErrorKind::WrongState | ErrorKind::Aborted => {
            StatusCode::CONFLICT
        }
        ErrorKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The HTTP response for `error`.
pub fn problem(error: &Error) -> Response<Body> {
    problem_as(status_code(error.kind()), error)
}

/// As [`problem`], with an explicit status.
pub fn problem_as(status: StatusCode, error: &Error) -> Response<Body> {
    let code = error.kind().code();
    let body = Problem {
        kind: format!("urn:strata:error:{code}"),
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        detail: error.to_string(),
        code,
        field: error.field(),
        hint: error.hint(),
    };
    // A struct of strings and a number always serializes.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
