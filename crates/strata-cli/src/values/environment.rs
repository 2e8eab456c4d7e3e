//! Variables for what is run: `KEY=VALUE`, a `KEY` alone that is taken from
//! the caller's own environment, and files with one of either in a line.

use std::path::Path;
use std::str::FromStr;

use super::variable;
use crate::failure::{Exit, Failure};

/// Longer files hold something else.
const MAX_FILE: u64 = 1 << 20;

/// One `--env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvironmentArg {
    /// `KEY=VALUE`.
    Set(String),
    /// `KEY`: what the caller has, if anything.
    Taken(String),
}

impl EnvironmentArg {
    /// `KEY=VALUE`; nothing when it is to be taken from `caller`, who does
    /// not have it either.
    pub(crate) fn resolve(&self, caller: impl Fn(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Set(variable) => Some(variable.clone()),
            Self::Taken(key) => caller(key).map(|value| format!("{key}={value}")),
        }
    }

    /// As [`Self::resolve`], from the environment of this process.
    pub(crate) fn of_process(&self) -> Option<String> {
        self.resolve(|key| std::env::var(key).ok())
    }
}

impl FromStr for EnvironmentArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('=') {
            return variable(text).map(Self::Set);
        }
        if text.is_empty() || text.contains(['\0', '\n']) {
            return Err("write it as KEY=VALUE, or KEY to copy yours".into());
        }
        Ok(Self::Taken(text.to_owned()))
    }
}

/// The variables of a file: one in each line, `#` begins a comment, nothing
/// is quoted.
pub(crate) fn environment_file(path: &Path) -> Result<Vec<EnvironmentArg>, Failure> {
    let failed = |why: std::io::Error| Failure::file("read", path, &why);
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE {
        let what = format!("{} is larger than {MAX_FILE} bytes", path.display());
        return Err(Failure::new(Exit::Usage, what));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|(line, why)| {
        let what = format!("{} does not contain variables", path.display());
        Failure::new(Exit::Usage, what).because(format!("line {line}: {why}"))
    })
}

fn parse(text: &str) -> Result<Vec<EnvironmentArg>, (usize, String)> {
    let lines = text.lines().enumerate();
    lines
        .map(|(number, line)| (number + 1, line.trim_start()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| line.parse().map_err(|why| (number, why)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_alone_is_taken_from_the_caller() {
        let caller = |key: &str| (key == "HOME").then(|| "/root".to_owned());
        let resolve = |text: &str| text.parse::<EnvironmentArg>().unwrap().resolve(caller);
        assert_eq!(resolve("A=b=c").as_deref(), Some("A=b=c"));
        assert_eq!(resolve("A=").as_deref(), Some("A="));
        assert_eq!(resolve("HOME").as_deref(), Some("HOME=/root"));
        assert_eq!(resolve("OTHER"), None);
        for bad in ["", "=b", "a\0"] {
            assert!(bad.parse::<EnvironmentArg>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn files_may_have_comments() {
        let variables = parse("# of the shop\n\nA=1\n  B=2 # not a comment\nHOME\n").unwrap();
        assert_eq!(
            variables,
            [
                EnvironmentArg::Set("A=1".into()),
                EnvironmentArg::Set("B=2 # not a comment".into()),
                EnvironmentArg::Taken("HOME".into()),
            ]
        );
        assert_eq!(parse("A=1\n=2\n").unwrap_err().0, 2);
    }
}
