//! What a caller is, which decides what it may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The role a certificate, a token or a socket peer speaks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Admin,
    /// Runs and changes workloads; does not touch identities or machines as a whole.
    Operator,
    Viewer,
    /// A node daemon: speaks of itself alone.
    Node,
}

impl Role {
    /// Every role, for tables and tests.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operator, Self::Viewer, Self::Node];

    /// The word for the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Node => "node",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(
                    "role",
                    format!("{text:?} is not a role: expected admin, operator, viewer or node"),
                )
            })
    }
}
