//! Whose budget a request is taken from.

use std::fmt;

use http::HeaderMap;
use strata_identity::{Caller, Proof};
use strata_types::Role;

use crate::bearer::{Bearer, bearer};
use crate::source::Source;

/// A credential, or the source of a caller that has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    /// The id of a token, which is public.
    Token(Box<str>),
    /// Role and name of a certificate, or of a user on the Unix socket.
    Name(Role, Box<str>),
    Source(Source),
}

impl CallerKey {
    pub(crate) fn of(caller: Option<&Caller>, token: Option<TokenId>, source: Source) -> Self {
        match (caller, token) {
            (None, _) => Self::Source(source),
            (Some(caller), Some(TokenId(id))) if caller.proof == Proof::Token => Self::Token(id),
            (Some(caller), _) => Self::Name(caller.role, caller.name.as_str().into()),
        }
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "token {id}"),
            Self::Name(role, name) => write!(f, "{role} {name:?}"),
            Self::Source(_) => f.write_str("an address without a credential"),
        }
    }
}

/// The id of the token that a request bears, before it was checked. It means
/// something once the auth layer let the request through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenId(Box<str>);

impl TokenId {
    /// `strata_<id>_<secret>`: see the tokens of `strata-identity`.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let Bearer::Token(text) = bearer(headers) else {
            return None;
        };
        let id = text.strip_prefix("strata_")?.split('_').next()?;
        (!id.is_empty() && id.len() <= 64).then(|| Self(id.to_ascii_lowercase().into()))
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn token_is_known_by_its_id_however_it_is_written() {
        let of = |value: &str| {
            TokenId::of(&HeaderMap::from_iter([(
                AUTHORIZATION,
                value.parse().unwrap(),
            )]))
        };
        let id = of("Bearer strata_0a1b_ffff").unwrap();
        assert_eq!(id, TokenId("0a1b".into()));
        assert_eq!(of("bearer  strata_0A1B_ffff ").unwrap(), id);
        for none in ["Bearer x", "Basic strata_0a1b_ffff", "Bearer strata__x"] {
            assert!(of(none).is_none(), "{none}");
        }
    }
}
