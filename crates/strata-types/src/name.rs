//! Names: DNS labels, refused when they are not, never trimmed into shape.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A DNS label: 1 to 63 of `a-z`, `0-9` and `-`, no `-` at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(Box<str>);

/// Why a text is not a label. Says what is allowed, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("must not be empty (1 to 63 of a-z, 0-9 and -)")]
    Empty,
    /// Longer than DNS allows.
    #[error("is {0} characters long; 63 is the most")]
    TooLong(usize),
    /// A character that no label has.
    #[error("has {0:?} in it; only a-z, 0-9 and - are allowed")]
    Character(char),
    /// A dash at either end.
    #[error("must not begin or end with -")]
    Dash,
}

impl Label {
    pub const MAX: usize = 63;

    /// The text of the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Label {
    /// Reads a name from the field `field` of a request.
    pub fn from_field(field: &str, text: &str) -> Result<Self, crate::Error> {
        text.parse().map_err(|why| {
            let text: String = text.chars().take(80).collect();
            crate::Error::invalid(field, format!("{text:?} {why}"))
        })
    }
}

impl std::borrow::Borrow<str> for Label {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        if text.is_empty() {
            return Err(LabelError::Empty);
        }
        let allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-';
        if let Some(c) = text.chars().find(|c| !allowed(c)) {
            return Err(LabelError::Character(c));
        }
        if text.len() > Self::MAX {
            return Err(LabelError::TooLong(text.len()));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(LabelError::Dash);
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Label {
    type Error = LabelError;

    fn try_from(text: String) -> Result<Self, LabelError> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0.into()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_dns_refuses() {
        assert_eq!("".parse::<Label>(), Err(LabelError::Empty));
        assert_eq!(
            "a".repeat(64).parse::<Label>(),
            Err(LabelError::TooLong(64))
        );
        assert_eq!("-a".parse::<Label>(), Err(LabelError::Dash));
        assert_eq!("a-".parse::<Label>(), Err(LabelError::Dash));
        for (text, bad) in [
            ("A", 'A'),
            ("a b", ' '),
            ("a\0", '\0'),
            ("..", '.'),
            ("ü", 'ü'),
        ] {
            assert_eq!(text.parse::<Label>(), Err(LabelError::Character(bad)));
        }
    }

    proptest! {
        #[test]
        fn every_label_comes_back_as_it_was(text in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?") {
            let label: Label = text.parse().unwrap();
            prop_assert_eq!(label.as_str(), text);
        }

        #[test]
        fn any_text_is_refused_or_a_dns_label(text in ".*") {
            if let Ok(label) = text.parse::<Label>() {
                let s = label.as_str();
                prop_assert_eq!(s, &text);
                prop_assert!((1..=63).contains(&s.len()));
                prop_assert!(s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
                prop_assert!(!s.starts_with('-') && !s.ends_with('-'));
            }
        }
    }
}
