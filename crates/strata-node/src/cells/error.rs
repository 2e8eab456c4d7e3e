//! What went wrong in the machinery, as the public error: by what the caller
//! can do about it.

use strata_cell::{CgroupError, InitError};
use strata_types::Error;

pub(super) fn cgroup_error(error: CgroupError) -> Error {
    match error {
        CgroupError::Unsupported(what) => Error::invalid(what.field, what.why),
        CgroupError::Refused {
            file,
            value,
            source,
        } => Error::invalid(
            field_of(&file),
            format!("the kernel refused {value:?} for {file}: {source}"),
        ),
        other => Error::internal(other.to_string()),
    }
}

/// The field of a request that ends up in a file.
fn field_of(file: &str) -> &'static str {
    match file.split('.').next() {
        Some("cpu") => "cell.options.cpu",
        Some("cpuset") => "cell.options.cpu.cpuset",
        Some("memory") => "cell.options.memory",
        Some("pids") => "cell.options.pids_max",
        _ => "cell.options.io",
    }
}

/// For a cell's own init.
pub(super) fn init_error(error: &InitError) -> Error {
    match error {
        InitError::Link(_) | InitError::LeaseEnded => Error::unavailable(error.to_string()),
        InitError::Step { .. } => Error::wrong_state(error.to_string()),
        _ => Error::internal(error.to_string()),
    }
}

pub(super) fn start_error(error: &InitError) -> Error {
    match error {
        InitError::Exec { .. } | InitError::Words => {
            Error::invalid("executable.command", error.to_string())
        }
        InitError::Directory { .. } => {
            Error::invalid("executable.options.working_directory", error.to_string())
        }
        InitError::Full => Error::exhausted(error.to_string())
            .with_hint("stop some, or spread them over several cells"),
        InitError::Link(_) | InitError::LeaseEnded => Error::unavailable(error.to_string()),
        InitError::Step { .. } => Error::wrong_state(error.to_string()),
        InitError::Confine { .. } => Error::invalid("executable.rlimits", error.to_string())
            .with_hint("no limit can be raised above that of the daemon without CAP_SYS_RESOURCE"),
        InitError::SetupRoot { .. } => Error::wrong_state(error.to_string()),
        InitError::Host { .. } => Error::internal(error.to_string()),
    }
}
