//! Durations: `500ms`, `10s`, `1h30m`, `7d`. A number without a unit is
//! refused: seconds to one reader are minutes to another.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Span(pub(crate) Duration);

/// Longest first, as they are written.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl Span {
    /// In milliseconds, as the wire takes grace periods and intervals.
    pub(crate) fn millis_u32(self) -> u32 {
        u32::try_from(self.0.as_millis()).unwrap_or(u32::MAX)
    }

    /// So many milliseconds.
    pub(crate) fn from_millis(ms: u32) -> Self {
        Self(Duration::from_millis(ms.into()))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(40).collect();
        let bad = || format!("{shown:?} is not a duration; write it as 500ms, 10s, 1h30m or 7d");
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("{shown:?} has no unit; write {shown}s for seconds"));
        }
        let mut rest = text;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
            rest = &rest[digits..];
            let letters = rest.len()
                - rest
                    .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                    .len();
            let (_, millis) = UNITS
                .iter()
                .find(|(unit, _)| *unit == &rest[..letters])
                .ok_or_else(bad)?;
            rest = &rest[letters..];
            total = number
                .checked_mul(*millis)
                .and_then(|ms| total.checked_add(ms))
                .ok_or_else(bad)?;
        }
        if text.is_empty() {
            return Err(bad());
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("1m1ms", 60_001),
        ] {
            assert_eq!(
                text.parse(),
                Ok(Span(Duration::from_millis(millis))),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_format() {
        let why = |text: &str| text.parse::<Span>().unwrap_err();
        insta::assert_snapshot!(why("5"), @r#""5" has no unit; write 5s for seconds"#);
        insta::assert_snapshot!(why("soon"), @r#""soon" is not a duration; write it as 500ms, 10s, 1h30m or 7d"#);
        for bad in ["", "s", "-1s", "1.5h", "1h 2m", "1y", "99999999999999999w"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_comes_back_as_it_was(millis in 0u64..u64::MAX / 2) {
            let span = Span(Duration::from_millis(millis));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }

        #[test]
        fn no_text_panics(text in ".{0,30}") {
            let _ = text.parse::<Span>();
        }
    }
}
