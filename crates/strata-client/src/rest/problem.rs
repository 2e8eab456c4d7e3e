//! Answers that say no: `application/problem+json`, with the code that every
//! face of the product has.

use http::StatusCode;
use serde::Deserialize;
use strata_types::{Error, ErrorKind};

/// As much of a problem as is of use here. Others may send less.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    title: String,
    detail: String,
    field: Option<String>,
    hint: Option<String>,
}

/// The error that an answer tells of.
pub(super) fn error(status: StatusCode, body: &[u8]) -> Error {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return foreign(status);
    };
    let kind = ErrorKind::ALL
        .into_iter()
        .find(|kind| kind.code() == problem.code)
        .unwrap_or_else(|| kind_of(status));
    let said = [problem.detail, problem.title];
    let said = said.into_iter().find(|text| !text.is_empty());
    let mut error = Error::new(
        kind,
        said.unwrap_or_else(|| format!("it returned {status}")),
    );
    if let Some(field) = problem.field {
        error = error.in_field(field);
    }
    match problem.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Something answered that does not speak as a server of ours does.
pub(super) fn foreign(status: StatusCode) -> Error {
    match status {
        // Nodes that run alone have gRPC only.
        StatusCode::OK | StatusCode::NOT_FOUND => {
            Error::wrong_state("no control plane at this address")
                .with_hint("`strata up` and `strata server` run one; specify it with --server")
        }
        other => Error::new(kind_of(other), format!("it returned {other}")),
    }
}

fn kind_of(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
        StatusCode::FORBIDDEN => ErrorKind::PermissionDenied,
        StatusCode::NOT_FOUND => ErrorKind::NotFound,
        StatusCode::CONFLICT => ErrorKind::WrongState,
        StatusCode::PRECONDITION_FAILED => ErrorKind::Aborted,
        StatusCode::TOO_MANY_REQUESTS => ErrorKind::Exhausted,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ErrorKind::Unavailable
        }
        other if other.is_client_error() => ErrorKind::Invalid,
        _ => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_decides_and_the_status_helps_out() {
        let body = br#"{"code":"exhausted","detail":"the quota is used up","field":"resources.cpu","hint":"ask for less","more":1}"#;
        let told = error(StatusCode::TOO_MANY_REQUESTS, body);
        assert_eq!(told.kind(), ErrorKind::Exhausted);
        assert_eq!(told.field(), Some("resources.cpu"));
        assert_eq!(told.hint(), Some("ask for less"));
        let told = error(StatusCode::FORBIDDEN, br#"{"title":"Forbidden"}"#);
        assert_eq!(told.kind(), ErrorKind::PermissionDenied);
        assert_eq!(told.message(), "Forbidden");
        let told = error(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(told.kind(), ErrorKind::Unavailable);
    }
}
