//! The name of a caller. It stands in certificates, tokens and logs, so it is
//! a plain word: nothing in it can break a line, a path or a subject.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// 1 to 128 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);

/// Why a text is not a valid name, with what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("must not be empty (1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-')")]
    Empty,
    /// Longer than an id may be.
    #[error("is {0} characters long; the maximum is 128")]
    TooLong(usize),
    /// A character that no name has.
    #[error("has {0:?} in it; only A-Z, a-z, 0-9, '.', '_' and '-' are allowed")]
    Character(char),
}

impl Name {
    pub const MAX: usize = 128;

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if let Some(c) = text.chars().find(|c| !allowed(c)) {
            return Err(NameError::Character(c));
        }
        if text.len() > Self::MAX {
            return Err(NameError::TooLong(text.len()));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl From<NameError> for strata_types::Error {
    fn from(error: NameError) -> Self {
        Self::invalid("name", error.to_string())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn says_what_is_wrong_with_a_name() {
        assert_eq!("".parse::<Name>(), Err(NameError::Empty));
        assert_eq!("a/b".parse::<Name>(), Err(NameError::Character('/')));
        assert_eq!("a\n".parse::<Name>(), Err(NameError::Character('\n')));
        assert_eq!(
            "x".repeat(129).parse::<Name>(),
            Err(NameError::TooLong(129))
        );
    }

    proptest! {
        #[test]
        fn every_name_comes_back_as_it_was(text in "[A-Za-z0-9._-]{1,128}") {
            let name: Name = text.parse().unwrap();
            prop_assert_eq!(name.as_str(), text);
        }

        #[test]
        fn any_text_is_refused_or_a_plain_word(text in ".*") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert!((1..=128).contains(&name.as_str().len()));
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
            }
        }
    }
}
