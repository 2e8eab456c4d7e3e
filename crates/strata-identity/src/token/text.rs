//! How tokens are written.
//!
//! ```text
//! strata_<id>_<secret>                      for the API
//! strata_join_<id>_<secret>_<fingerprint>   for one node to join
//! ```
//! The id is public and finds the record; the secret proves; by the
//! fingerprint a joining node verifies the CA. All in lower-case hex, so that a
//! double click takes the whole token and a scanner for leaked secrets can
//! know it by its shape.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Fingerprint;
use crate::fingerprint::{hex, unhex};

const PREFIX: &str = "strata_";
const JOIN: &str = "join_";

/// A token as its holder has it. Printing it for debugging shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(hidden)")
    }
}

/// 256 random bits. Never printed, never kept: see [`SecretHash`].
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0).into())
    }
}

/// What is kept of a secret. One round of SHA-256 and no salt is right here:
/// slow, salted hashes protect words that people choose and thieves can guess.
/// 256 random bits cannot be guessed, and a slow hash would let any client keep
/// the server busy with wrong tokens.
#[derive(Clone)]
pub(crate) struct SecretHash([u8; 32]);

impl SecretHash {
    /// Compares in constant time.
    pub(crate) fn is_of(&self, secret: &Secret) -> bool {
        self.0.ct_eq(&secret.hash().0).into()
    }

    pub(crate) fn to_hex(&self) -> String {
        hex(&self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }
}

/// The public part of a token: 64 random bits.
pub(crate) fn random_id() -> String {
    hex(&rand::random::<[u8; 8]>())
}

/// An API token taken apart.
pub(crate) struct ApiToken {
    pub(crate) id: String,
    pub(crate) secret: Secret,
}

impl ApiToken {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        Some(Self {
            id: id_from(id)?,
            secret: Secret(unhex(secret)?),
        })
    }

    pub(crate) fn write(&self) -> TokenText {
        TokenText(format!("{PREFIX}{}_{}", self.id, hex(&self.secret.0)))
    }
}

/// A join token taken apart. What a joining node needs of it is public.
pub struct JoinToken {
    pub(crate) id: String,
    pub(crate) secret: Secret,
    pub(crate) fingerprint: Fingerprint,
}

impl JoinToken {
    /// Reads a join token; `None` when it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?.strip_prefix(JOIN)?;
        let (id, rest) = rest.split_once('_')?;
        let (secret, fingerprint) = rest.split_once('_')?;
        Some(Self {
            id: id_from(id)?,
            secret: Secret(unhex(secret)?),
            fingerprint: fingerprint.parse().ok()?,
        })
    }

    /// The CA that a joining node must find at the server.
    pub fn ca_fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The public part: what lists and revocations name it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn write(&self) -> TokenText {
        TokenText(format!(
            "{PREFIX}{JOIN}{}_{}_{}",
            self.id,
            hex(&self.secret.0),
            self.fingerprint
        ))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("id", &self.id)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

fn id_from(text: &str) -> Option<String> {
    unhex::<8>(text).map(|bytes| hex(&bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_is_not_printed_by_accident() {
        let token = ApiToken {
            id: random_id(),
            secret: Secret::random(),
        };
        assert_eq!(format!("{:?}", token.write()), "TokenText(hidden)");
        let join = JoinToken {
            id: random_id(),
            secret: Secret([0xab; 32]),
            fingerprint: Fingerprint::of(b"ca"),
        };
        assert!(!format!("{join:?}").contains("abab"));
    }

    proptest! {
        #[test]
        fn a_token_comes_back_as_it_was(id: [u8; 8], secret: [u8; 32], ca: [u8; 4]) {
            let text = ApiToken { id: hex(&id), secret: Secret(secret) }.write();
            let token = ApiToken::parse(text.expose()).unwrap();
            prop_assert_eq!(token.write(), text.clone());
            prop_assert!(token.secret.hash().is_of(&Secret(secret)));
            prop_assert!(JoinToken::parse(text.expose()).is_none());

            let fingerprint = Fingerprint::of(&ca);
            let text = JoinToken { id: hex(&id), secret: Secret(secret), fingerprint }.write();
            let token = JoinToken::parse(text.expose()).unwrap();
            prop_assert_eq!(token.write(), text.clone());
            prop_assert_eq!(token.ca_fingerprint(), fingerprint);
            prop_assert!(ApiToken::parse(text.expose()).is_none());
        }

        #[test]
        fn any_text_is_refused_or_spelled_the_one_way(
            text in "\\PC*|strata_(join_)?[0-9a-f]{16}_[0-9a-fA-F]{63,65}(_[0-9a-f]{64})?"
        ) {
            if let Some(token) = ApiToken::parse(&text) {
                let written = token.write();
                prop_assert_eq!(written.expose(), &text);
            }
            if let Some(token) = JoinToken::parse(&text) {
                let written = token.write();
                prop_assert_eq!(written.expose(), &text);
            }
        }
    }
}
