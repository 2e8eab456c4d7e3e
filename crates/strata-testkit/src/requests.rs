//! Requests in one line each, and refusals as tests expect them.

use strata_api::error_from_status;
use strata_api::runtime::{Cell, Executable};
use strata_api::strata::v1::{CellOptions, ExecutableOptions, ExecutableRestart};
use tonic::{Code, Status};

/// A cell with nothing but a name.
pub fn cell(name: &str) -> Cell {
    Cell {
        name: name.to_owned(),
        ..Default::default()
    }
}

/// A cell with options.
pub fn cell_with(name: &str, change: impl FnOnce(&mut CellOptions)) -> Cell {
    let mut options = CellOptions::default();
    change(&mut options);
    Cell {
        options: Some(options),
        ..cell(name)
    }
}

/// An executable with nothing but a command.
pub fn executable(cell: &str, name: &str, command: &str) -> Executable {
    Executable {
        name: name.to_owned(),
        command: command.to_owned(),
        cell_name: cell.to_owned(),
        ..Default::default()
    }
}

/// An executable with options.
pub fn executable_with(
    cell: &str,
    name: &str,
    command: &str,
    change: impl FnOnce(&mut ExecutableOptions),
) -> Executable {
    let mut options = ExecutableOptions::default();
    change(&mut options);
    Executable {
        options: Some(options),
        ..executable(cell, name, command)
    }
}

/// An executable that is started again according to `restart`.
pub fn supervised(cell: &str, name: &str, command: &str, restart: ExecutableRestart) -> Executable {
    executable_with(cell, name, command, |options| {
        options.restart = restart.into();
    })
}

/// The field that a refusal names.
pub fn field_of(status: &Status) -> Option<String> {
    error_from_status(status).field().map(str::to_owned)
}

/// Asserts a refusal with this code, and gives its words.
///
/// # Panics
/// When it was no refusal, or another.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code) -> String {
    let status = answer.expect_err("this was to be refused");
    assert_eq!(status.code(), code, "{status:?}");
    status.message().to_owned()
}
