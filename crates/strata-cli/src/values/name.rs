//! Names, refused before anything is sent.

use std::fmt::Display;
use std::str::FromStr;

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

/// Reads the name of a pod or a machine: `web`.
pub(crate) fn label_name(text: &str) -> Result<String, String> {
    match text.parse::<strata_types::Label>() {
        Ok(label) => Ok(label.into()),
        Err(why) => Err(format!("{text:?} {why}")),
    }
}

/// Reads what an object of the server is found by: its name, its id, or
/// `PROJECT/NAME`.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let (project, name) = text.split_once('/').unwrap_or(("default", text));
    let bad = project.parse::<strata_types::Label>().is_err()
        || name.parse::<strata_types::instance::InstanceId>().is_err();
    match bad {
        false => Ok(text.to_owned()),
        true => {
            let shown: String = text.chars().take(80).collect();
            Err(format!("{shown:?} is neither NAME, PROJECT/NAME nor an id"))
        }
    }
}

/// Reads `KEY=VALUE`.
pub(crate) fn variable(text: &str) -> Result<String, String> {
    strata_types::EnvironmentVariable::try_from(text.to_owned())
        .map(Into::into)
        .map_err(|why| why.message().to_owned())
}

pub(crate) fn role(text: &str) -> Result<strata_types::Role, String> {
    text.parse::<strata_types::Role>()
        .map_err(|why| why.message().to_owned())
}

/// Refuses what is no `T`; what is goes to the node in the words it came in.
pub(crate) fn checked<T: FromStr>(text: &str) -> Result<String, String>
where
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(why.to_string()),
    }
}
