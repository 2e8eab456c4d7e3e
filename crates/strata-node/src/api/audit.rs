//! What the audit log is given of the sessions on a node.

use strata_audit::{SessionEnd, SessionRecorder};
use strata_types::Error;
use tonic::Request;

use crate::api::views::split;
use crate::cells::RunView;

/// With what the sessions of a request are recorded.
pub(super) fn recorder<T>(request: &Request<T>) -> SessionRecorder {
    let recorder = request.extensions().get::<SessionRecorder>();
    recorder.cloned().unwrap_or_default()
}

/// How the process of a session ended.
pub(super) fn ended(view: &RunView, has_left: bool) -> SessionEnd {
    let (exit_code, signal) = view.ending.map_or((None, None), split);
    SessionEnd {
        exit_code,
        signal,
        reason: match has_left {
            true => caller_left().reason,
            false => view.ending.map(|ending| ending.to_string()),
        },
    }
}

pub(super) fn caller_left() -> SessionEnd {
    SessionEnd::because("the caller left")
}

pub(super) fn not_started(error: &Error) -> SessionEnd {
    SessionEnd::because(format!("not started: {}", error.message()))
}
