//! Secrets that a pod is given: which, and where it finds them. The values
//! are never part of what a pod is asked to be.

use serde::{Deserialize, Serialize};

use super::volume::check_target;
use crate::{Error, Label};

/// Where secrets are by default.
const DIRECTORY: &str = "/run/secrets";
/// The longest name of a variable.
const MAX_VARIABLE: usize = 256;

/// A secret that a pod is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSecret {
    /// Its name in the project.
    pub name: Label,
    /// Where the pod finds it.
    pub target: SecretTarget,
}

/// Where a pod finds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretTarget {
    /// In this variable of its environment.
    Environment(String),
    /// In this file, which is in memory.
    File(String),
}

impl PodSecret {
    /// Reads `NAME`, which is found in `/run/secrets/NAME`, `NAME:/PATH` or
    /// `VARIABLE=NAME`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Error> {
        let (name, target) = match (text.split_once('='), text.split_once(':')) {
            (Some((variable, name)), None) => {
                (name, SecretTarget::Environment(variable.to_owned()))
            }
            (None, Some((name, path))) => (name, SecretTarget::File(path.to_owned())),
            (None, None) => (text, SecretTarget::File(format!("{DIRECTORY}/{text}"))),
            (Some(_), Some(_)) => {
                let why = "is none of NAME, NAME:/PATH and VARIABLE=NAME";
                return Err(Error::invalid(field, why));
            }
        };
        let name = Label::from_field(field, name)?;
        let secret = Self { name, target };
        secret.check(field)?;
        Ok(secret)
    }

    /// Refuses what cannot be had, naming the field.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        match &self.target {
            SecretTarget::File(path) => check_target(field, path),
            SecretTarget::Environment(name) => {
                let first = |c: u8| c.is_ascii_alphabetic() || c == b'_';
                let rest = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
                let is_name = name.len() <= MAX_VARIABLE
                    && name.bytes().next().is_some_and(first)
                    && name.bytes().all(rest);
                match is_name {
                    true => Ok(()),
                    false => Err(Error::invalid(field, "is not a name of a variable")),
                }
            }
        }
    }

    /// The file it is found in, if it is a file.
    pub fn path(&self) -> Option<&str> {
        match &self.target {
            SecretTarget::File(path) => Some(path.trim_end_matches('/')),
            SecretTarget::Environment(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_file_or_a_variable() {
        let parse = |text: &str| PodSecret::parse("secrets[0]", text);
        let file = |path: &str| SecretTarget::File(path.into());
        let table = [
            ("db", "db", file("/run/secrets/db")),
            ("db:/etc/app/password", "db", file("/etc/app/password")),
            (
                "DB_PASSWORD=db",
                "db",
                SecretTarget::Environment("DB_PASSWORD".into()),
            ),
        ];
        for (text, name, target) in table {
            let read = parse(text).unwrap();
            assert_eq!(
                (read.name.as_str(), &read.target),
                (name, &target),
                "{text}"
            );
        }
        let long = format!("{}=db", "A".repeat(257));
        for bad in [
            "",
            "=",
            "A=",
            "=db",
            "1A=db",
            "A-B=db",
            "Db",
            "db:",
            "db:etc",
            "db:/",
            "db:/proc/x",
            "db:/sys",
            "db:/a/../b",
            "A=db:/x",
            "db:/a\0b",
            "a b",
            &long,
        ] {
            let error = parse(bad).unwrap_err();
            assert_eq!(error.field(), Some("secrets[0]"), "{bad}");
        }
    }
}
