//! A moment in the past: a duration before now, or a time in RFC 3339.

use std::str::FromStr;

use jiff::Timestamp;

use super::Span;

/// The moment, before it is known what "now" is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long before now.
    Ago(Span),
    At(Timestamp),
}

impl Since {
    /// The moment in Unix milliseconds.
    pub(crate) fn millis(self, now: Timestamp) -> i64 {
        match self {
            Self::At(time) => time.as_millisecond(),
            Self::Ago(span) => {
                let millis = i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX);
                now.as_millisecond().saturating_sub(millis)
            }
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(['T', ' ', '-']) {
            return text.parse().map(Self::At).map_err(|_| {
                format!("{text:?} is not a timestamp; write it as 2026-01-31T12:00:00Z or 10m")
            });
        }
        text.parse().map(Self::Ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_relative_or_absolute() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let millis = |text: &str| text.parse::<Since>().unwrap().millis(now);
        assert_eq!(millis("10m"), now.as_millisecond() - 600_000);
        assert_eq!(millis("2026-01-31T12:00:00Z"), now.as_millisecond());
        assert!("yesterday".parse::<Since>().is_err());
        assert!("2026-01-31".parse::<Since>().is_err());
    }
}
