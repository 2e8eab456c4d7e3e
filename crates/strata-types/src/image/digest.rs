//! Content digests. SHA-256 only: it is what every registry and builder
//! writes, and one algorithm is one path through the store.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// There is no `algorithm:` in front.
    #[error("a digest looks like sha256:<64 hex digits>")]
    NoAlgorithm,
    /// An algorithm we do not know.
    #[error("digest algorithm {0:?} is not supported, only sha256 is")]
    Algorithm(String),
    /// Not 64 lower-case hex digits.
    #[error("a sha256 digest has 64 lower-case hex digits")]
    Hex,
}

impl Digest {
    /// The digest of bytes that are at hand.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone, as file names use them.
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads the 64 hex digits alone.
    pub fn from_hex(text: &str) -> Result<Self, DigestError> {
        fn nibble(byte: u8) -> Result<u8, DigestError> {
            match byte {
                b'0'..=b'9' => Ok(byte - b'0'),
                b'a'..=b'f' => Ok(byte - b'a' + 10),
                _ => Err(DigestError::Hex),
            }
        }
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(DigestError::Hex);
        };
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() {
            return Err(DigestError::Hex);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(bytes))
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        match text.split_once(':') {
            Some(("sha256", hex)) => Self::from_hex(hex),
            Some((other, _)) => Err(DigestError::Algorithm(other.chars().take(32).collect())),
            None => Err(DigestError::NoAlgorithm),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Digests content as it passes by.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_what_it_writes() {
        let digest = Digest::of(b"strata");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let mut hasher = Hasher::default();
        hasher.update(b"str");
        hasher.update(b"ata");
        assert_eq!(hasher.finish(), digest);
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        let parse = |text: &str| text.parse::<Digest>().unwrap_err();
        assert_eq!(parse("abc"), DigestError::NoAlgorithm);
        assert_eq!(parse("sha512:ab"), DigestError::Algorithm("sha512".into()));
        assert_eq!(parse("sha256:ab"), DigestError::Hex);
        assert_eq!(
            parse(&format!("sha256:{}", "A".repeat(64))),
            DigestError::Hex
        );
        assert_eq!(
            parse(&format!("sha256:../{}", "a".repeat(61))),
            DigestError::Hex
        );
    }
}
