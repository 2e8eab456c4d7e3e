//! What is answered when a request is refused: `application/problem+json`,
//! with the status that REST has for the kind of error.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use strata_transport::{problem_as, status_code};
use strata_types::{Error, ErrorKind};

/// Why a request is refused, and with which status.
#[derive(Clone, Debug)]
pub(super) struct Rejection {
    status: StatusCode,
    error: Error,
}

pub(super) type Answer<T = Response> = Result<T, Rejection>;

impl Rejection {
    /// With a status that is not the usual one for this kind.
    pub(super) fn with(status: StatusCode, error: Error) -> Self {
        Self { status, error }
    }

    /// The request cannot be read at all.
    pub(super) fn unreadable(error: Error) -> Self {
        Self::with(StatusCode::BAD_REQUEST, error)
    }

    /// It is not as it was when the caller read it.
    pub(super) fn outdated() -> Self {
        let why = "the record was changed since it was read";
        let error = Error::new(ErrorKind::Aborted, why)
            .in_field("If-Match")
            .with_hint("look at it again, then repeat the request with its ETag");
        Self::with(StatusCode::PRECONDITION_FAILED, error)
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            // It was read, and makes no sense.
            ErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Aborted if error.field() == Some("If-Match") => {
                StatusCode::PRECONDITION_FAILED
            }
            kind => status_code(kind),
        };
        Self { status, error }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self.error, "a request failed");
        }
        let mut response = problem_as(self.status, &self.error);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// There is something here, and it does not allow this method. The router lists
/// by [`ALLOW`] which it does.
pub(super) async fn wrong_method(method: http::Method, uri: http::Uri) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    let why = format!("{method} is nothing that can be done with {path}");
    let error = Error::new(ErrorKind::Invalid, why)
        .with_hint(format!("the header {ALLOW} says what can be"));
    Rejection::with(StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}
