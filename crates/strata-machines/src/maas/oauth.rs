//! Authentication at a region: OAuth 1.0 with the signature PLAINTEXT, which is
//! the key itself. So a region without TLS needs `insecure = true`.

use std::fmt;

use http::HeaderValue;
use strata_http::percent_encode;

use crate::ProviderError;

/// A key of MAAS.
#[derive(Clone)]
pub(super) struct Key {
    consumer: String,
    token: String,
    secret: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(key)")
    }
}

impl Key {
    /// Reads `consumer:token:secret`.
    pub(super) fn parse(text: &str) -> Result<Self, ProviderError> {
        let words: Vec<&str> = text.trim().split(':').collect();
        let good = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic());
        match words[..] {
            [consumer, token, secret] if words.iter().all(good) => Ok(Self {
                consumer: consumer.to_owned(),
                token: token.to_owned(),
                secret: secret.to_owned(),
            }),
            _ => Err(ProviderError::Refused(
                "the MAAS key is none: it has three words with `:` between them, as \
                 `maas apikey --username=NAME` prints it"
                    .into(),
            )),
        }
    }

    /// The proof of one request.
    pub(super) fn header(&self, nonce: &str, seconds: u64) -> Result<HeaderValue, ProviderError> {
        // The consumer has no secret of its own.
        let signature = format!("&{}", self.secret);
        let seconds = seconds.to_string();
        let fields = [
            ("oauth_version", "1.0"),
            ("oauth_signature_method", "PLAINTEXT"),
            ("oauth_consumer_key", &*self.consumer),
            ("oauth_token", &*self.token),
            ("oauth_signature", &*signature),
            ("oauth_nonce", nonce),
            ("oauth_timestamp", &*seconds),
        ];
        let fields = fields.map(|(name, value)| format!("{name}=\"{}\"", percent_encode(value)));
        let mut header = HeaderValue::from_str(&format!("OAuth {}", fields.join(", ")))
            .map_err(|_| ProviderError::Refused("the MAAS key is none".into()))?;
        header.set_sensitive(true);
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oauth_header_contains_the_key() {
        let key = Key::parse("con:tok:se/cret\n").unwrap();
        let header = key.header("42", 1_700_000_000).unwrap();
        assert_eq!(
            header.to_str().unwrap(),
            "OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", \
             oauth_consumer_key=\"con\", oauth_token=\"tok\", \
             oauth_signature=\"%26se%2Fcret\", oauth_nonce=\"42\", \
             oauth_timestamp=\"1700000000\""
        );
        assert_eq!(format!("{header:?} {key:?}"), "Sensitive (key)");
        for bad in ["", "a:b", "a:b:c:d", "a::c", "a:b:c d"] {
            assert!(Key::parse(bad).is_err(), "{bad}");
        }
    }
}
