//! A further name of a pod: one label or several, with dots between.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Label;

/// A further name by which others find a pod, such as `web` or `web.project`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alias(String);

impl Alias {
    /// The longest: what a DNS name leaves with the node's domain behind it.
    pub const MAX: usize = 200;

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Alias {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(80).collect();
        if text.len() > Self::MAX {
            return Err(format!("{shown:?} is longer than {} characters", Self::MAX));
        }
        for label in text.split('.') {
            let read = label.parse::<Label>();
            read.map_err(|why| format!("{shown:?}: {label:?} {why}"))?;
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Alias {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Alias> for String {
    fn from(alias: Alias) -> Self {
        alias.0
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_dots_between_are_names() {
        for good in ["web", "web.project", "a.b.c", "web-1.x2"] {
            assert_eq!(good.parse::<Alias>().unwrap().as_str(), good);
        }
        let long = "a.".repeat(120) + "a";
        for bad in ["", ".", "web.", ".web", "a..b", "Web", "a b", "ü", &long] {
            assert!(bad.parse::<Alias>().is_err(), "{bad:?}");
        }
    }
}
