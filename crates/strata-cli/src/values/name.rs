//! Names, refused before anything is sent.

use strata_types::{CellName, ExecutableName};

/// Reads the name of a cell: `web`, `web/cache`.
pub(crate) fn cell_name(text: &str) -> Result<CellName, String> {
    text.parse::<CellName>()
        .map_err(|why| why.message().to_owned())
}

/// Reads the name of an executable: `main`.
pub(crate) fn executable_name(text: &str) -> Result<ExecutableName, String> {
    text.parse::<ExecutableName>()
        .map_err(|why| why.message().to_owned())
}

/// Reads `KEY=VALUE`.
pub(crate) fn variable(text: &str) -> Result<String, String> {
    strata_types::EnvironmentVariable::try_from(text.to_owned())
        .map(Into::into)
        .map_err(|why| why.message().to_owned())
}

/// Reads a role.
pub(crate) fn role(text: &str) -> Result<strata_types::Role, String> {
    text.parse::<strata_types::Role>()
        .map_err(|why| why.message().to_owned())
}
