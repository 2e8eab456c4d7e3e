//! The keys of a node's encrypted overlay: X25519, written as WireGuard's own
//! tools write them, in base64.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::agreement::{self, X25519};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The length of either key in bytes.
const LENGTH: usize = 32;

/// Why something is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another length, or is not base64.
    #[error("is not 32 bytes in base64")]
    Form,
    /// No node has the private key of it.
    #[error("is zero")]
    Zero,
    /// The cryptographic library failed.
    #[error("cannot be made: the cryptographic library failed")]
    Library,
}

/// What a node shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; LENGTH]);

impl PublicKey {
    /// The key as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&[u8]> for PublicKey {
    type Error = KeyError;

    fn try_from(bytes: &[u8]) -> Result<Self, KeyError> {
        match <[u8; LENGTH]>::try_from(bytes) {
            Ok(key) if key == [0; LENGTH] => Err(KeyError::Zero),
            Ok(key) => Ok(Self(key)),
            Err(_) => Err(KeyError::Form),
        }
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        decoded(text)?.as_slice().try_into()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a node keeps to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; LENGTH]);

impl PrivateKey {
    pub fn generate() -> Result<Self, KeyError> {
        let mut key = [0; LENGTH];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| KeyError::Library)?;
        Ok(Self(key))
    }

    /// The key that others know this one by.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        let key = agreement::PrivateKey::from_private_key(&X25519, &self.0);
        let key = key.map_err(|_| KeyError::Library)?;
        let public = key.compute_public_key().map_err(|_| KeyError::Library)?;
        public.as_ref().try_into()
    }

    /// As it is kept in a file.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match <[u8; LENGTH]>::try_from(decoded(text)?) {
            Ok(key) if key == [0; LENGTH] => Err(KeyError::Zero),
            Ok(key) => Ok(Self(key)),
            Err(_) => Err(KeyError::Form),
        }
    }
}

/// Not into any log.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, KeyError> {
    STANDARD.decode(text.trim()).map_err(|_| KeyError::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 6.1.
    #[test]
    fn a_public_key_follows_from_the_private_one() {
        let private: PrivateKey = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
            .parse()
            .unwrap();
        let public = private.public().unwrap();
        assert_eq!(
            public.to_string(),
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        );
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(private.to_base64().parse(), Ok(private));
    }

    #[test]
    fn every_private_key_is_another_and_none_is_printed() {
        let (one, two) = (PrivateKey::generate(), PrivateKey::generate());
        assert_ne!(one, two);
        let one = one.unwrap();
        assert!(!format!("{one:?}").contains(&one.to_base64()));
    }

    #[test]
    fn invalid_key_is_refused() {
        let short = STANDARD.encode([7; 31]);
        let zero = STANDARD.encode([0; 32]);
        for (text, error) in [
            ("", KeyError::Form),
            ("not base64!", KeyError::Form),
            (&short, KeyError::Form),
            (&zero, KeyError::Zero),
        ] {
            assert_eq!(text.parse::<PublicKey>(), Err(error), "{text}");
            assert_eq!(text.parse::<PrivateKey>(), Err(error), "{text}");
        }
    }
}
