//! What happened in an operation, line by line. The log is bounded: when it
//! is full, the oldest lines go.

use serde::{Deserialize, Serialize};

/// Longer texts are cut: the store is no place for a dump.
const MAX_TEXT_LENGTH: usize = 2048;

/// One line of the log of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number; the first ever is 0.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The step it is about.
    pub step: Option<String>,
    /// The text, for people.
    pub text: String,
}

/// A line that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    step: Option<String>,
    text: String,
}

impl Line {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            step: None,
            text: text.into(),
        }
    }

    pub(crate) fn of(step: &str, text: impl Into<String>) -> Self {
        Self {
            step: Some(step.into()),
            text: text.into(),
        }
    }

    pub(crate) fn numbered(self, number: u64, at_ms: i64) -> LogLine {
        LogLine {
            number,
            at_ms,
            step: self.step,
            text: cut(self.text),
        }
    }
}

/// The text, or the first two kilobytes of it.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_LENGTH {
        let end = (0..=MAX_TEXT_LENGTH)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("short".into()), "short");
        let long = cut("ä".repeat(MAX_TEXT_LENGTH));
        assert_eq!(long.chars().count(), MAX_TEXT_LENGTH / 2 + 1);
        assert!(long.ends_with('…'));
    }
}
