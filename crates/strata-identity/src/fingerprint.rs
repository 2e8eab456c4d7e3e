//! The SHA-256 of a CA certificate: short enough to travel inside a join
//! token, strong enough to know the server by before anything else is known.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// SHA-256 over the DER of a certificate; written as 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The text is not 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 hexadecimal digits")]
pub struct FingerprintError;

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        unhex(text).map(Self).ok_or(FingerprintError)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Exactly `N` bytes out of lower-case hexadecimal digits; one spelling each.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_fingerprint_comes_back_as_it_was(der in proptest::collection::vec(any::<u8>(), 0..64)) {
            let fingerprint = Fingerprint::of(&der);
            prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        }

        #[test]
        fn any_text_is_refused_or_spelled_the_one_way(text in ".*|[0-9a-fA-F]{64}") {
            if let Ok(fingerprint) = text.parse::<Fingerprint>() {
                prop_assert_eq!(fingerprint.to_string(), text);
            }
        }
    }
}
