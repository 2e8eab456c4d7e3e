//! How fast something goes: `10MB/s`. The `/s` may be left out.

use std::str::FromStr;

use crate::values::Bytes;

/// Bytes a second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate(pub(super) u64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix("/s").unwrap_or(text).parse()? {
            Bytes(0) => Err(format!("{text:?} is too slow; write it as 10MB/s")),
            Bytes(n) => Ok(Self(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_size_each_second() {
        for text in ["10MB/s", "10MB", "10000000"] {
            assert_eq!(text.parse(), Ok(Rate(10_000_000)), "{text}");
        }
        for text in ["0", "0/s", "/s", "10MB/m", "fast"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
