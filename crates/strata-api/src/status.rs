//! The public error on the gRPC wire, and back. The code is the kind; the
//! field and the hint travel as standard error details, so that any client
//! can show them.

use strata_types::{Error, ErrorKind};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const DOMAIN: &str = "strata";

/// Kind and code, side by side. Each appears once, so the mapping can be
/// read in both directions.
const CODES: [(ErrorKind, Code); 10] = [
    (ErrorKind::Invalid, Code::InvalidArgument),
    (ErrorKind::NotFound, Code::NotFound),
    (ErrorKind::AlreadyExists, Code::AlreadyExists),
    (ErrorKind::WrongState, Code::FailedPrecondition),
    (ErrorKind::Exhausted, Code::ResourceExhausted),
    (ErrorKind::Unauthenticated, Code::Unauthenticated),
    (ErrorKind::PermissionDenied, Code::PermissionDenied),
    (ErrorKind::Unavailable, Code::Unavailable),
    (ErrorKind::Aborted, Code::Aborted),
    (ErrorKind::Internal, Code::Internal),
];

/// The gRPC status that tells a caller of `error`.
pub fn status_from_error(error: &Error) -> Status {
    let code = CODES
        .iter()
        .find(|(kind, _)| *kind == error.kind())
        .map_or(Code::Internal, |(_, code)| *code);
    let mut details = ErrorDetails::new();
    details.set_error_info(error.kind().code(), DOMAIN, []);
    if let Some(field) = error.field() {
        details.add_bad_request_violation(field, error.message());
    }
    if let Some(hint) = error.hint() {
        details.set_localized_message("en", hint);
    }
    Status::with_error_details(code, message(error), details)
}

/// What every client shows; few show the details, so the hint is here too.
fn message(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error}{}", suffix(hint)),
        None => error.to_string(),
    }
}

/// A hint as it ends a message.
fn suffix(hint: &str) -> String {
    format!(" (hint: {hint})")
}

/// The public error that a gRPC status carries.
pub fn error_from_status(status: &Status) -> Error {
    let kind = CODES
        .iter()
        .find(|(_, code)| *code == status.code())
        .map_or_else(|| kind_of_foreign(status.code()), |(kind, _)| *kind);
    let details = status.get_error_details();
    let violation = details
        .bad_request()
        .and_then(|bad| bad.field_violations.first());
    let mut error = match violation {
        Some(v) => Error::new(kind, &*v.description).in_field(&*v.field),
        None => {
            let hint = details.localized_message().map(|it| suffix(&it.message));
            let message = status.message();
            let without = hint.and_then(|hint| message.strip_suffix(&*hint));
            Error::new(kind, without.unwrap_or(message))
        }
    };
    if let Some(hint) = details.localized_message() {
        error = error.with_hint(&*hint.message);
    }
    error
}

/// Codes that this product never sends, from servers that do.
fn kind_of_foreign(code: Code) -> ErrorKind {
    match code {
        Code::OutOfRange => ErrorKind::Invalid,
        Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_code_and_comes_back() {
        for kind in ErrorKind::ALL {
            let error = Error::new(kind, "what happened")
                .in_field("cell.name")
                .with_hint("what to do");
            assert_eq!(error_from_status(&status_from_error(&error)), error);
        }
    }

    #[test]
    fn hint_is_in_the_message_once() {
        let error = Error::wrong_state("it is being freed").with_hint("try again");
        let status = status_from_error(&error);
        assert_eq!(status.message(), "it is being freed (hint: try again)");
        assert_eq!(error_from_status(&status), error);
    }

    #[test]
    fn the_message_names_the_field() {
        let status = status_from_error(&Error::invalid("cell.name", "must not be empty"));
        assert_eq!(status.message(), "cell.name: must not be empty");
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
