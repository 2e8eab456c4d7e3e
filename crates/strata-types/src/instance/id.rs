//! Ids: made by the server when the client gives none, or the client's own.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The id of an instance. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceId(Arc<str>);

/// The id of a workload.
pub type WorkloadId = InstanceId;

impl InstanceId {
    pub const MAX: usize = 128;

    /// The text of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads an id from the field `field` of a request.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let why = match text {
            "" => "must not be empty".to_owned(),
            // Would be taken for directories in a path.
            "." | ".." => "is not an id".to_owned(),
            _ if text.len() > Self::MAX => {
                format!(
                    "is {} characters long; {} is the most",
                    text.len(),
                    Self::MAX
                )
            }
            _ if !text.bytes().all(allowed) => {
                let text: String = text.chars().take(80).collect();
                format!("{text:?} has something else than A-Z, a-z, 0-9, '.', '_' and '-' in it")
            }
            _ => return Ok(Self(text.into())),
        };
        Err(Error::invalid(field, why))
    }
}

impl FromStr for InstanceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_field("id", text)
    }
}

impl TryFrom<String> for InstanceId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<InstanceId> for String {
    fn from(id: InstanceId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl std::borrow::Borrow<str> for InstanceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        for good in ["a", "A.b_c-9", "0192f0c4-7a3e-7b1c-9c1d-000000000000"] {
            assert_eq!(good.parse::<InstanceId>().unwrap().as_str(), good);
        }
        let long = "x".repeat(129);
        for bad in ["", ".", "..", "a/b", "a b", "ü", "a\0", &long] {
            let error = bad.parse::<InstanceId>().unwrap_err();
            assert_eq!(error.field(), Some("id"), "{bad:?}");
        }
    }
}
