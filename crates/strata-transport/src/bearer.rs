//! `Authorization: Bearer …`, read strictly: one header, one token.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// What the header holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    None,
    /// A token, unchecked. Not to be printed.
    Token(&'a str),
    /// A header that is not understood, and why.
    Malformed(&'static str),
}

pub(crate) fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Bearer::None;
    };
    if values.next().is_some() {
        return Bearer::Malformed("there is more than one Authorization header");
    }
    let Ok(text) = value.to_str() else {
        return Bearer::Malformed("the Authorization header is not plain text");
    };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            Bearer::Token(token.trim_matches(' '))
        }
        _ => Bearer::Malformed("the Authorization header is not \"Bearer TOKEN\""),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let value = |bytes: &&[u8]| HeaderValue::from_bytes(bytes).unwrap();
        values
            .iter()
            .map(|bytes| (AUTHORIZATION, value(bytes)))
            .collect()
    }

    #[test]
    fn bearer_token_is_parsed_and_malformed_headers_are_rejected() {
        assert_eq!(bearer(&headers(&[])), Bearer::None);
        assert_eq!(bearer(&headers(&[b"Bearer abc"])), Bearer::Token("abc"));
        assert_eq!(bearer(&headers(&[b"bEARER  abc "])), Bearer::Token("abc"));
        for wrong in [
            headers(&[b"Basic abc"]),
            headers(&[b"Bearer"]),
            headers(&[b"abc"]),
            headers(&[b""]),
            headers(&[b"Bearer \xff"]),
            headers(&[b"Bearer a", b"Bearer a"]),
        ] {
            assert!(matches!(bearer(&wrong), Bearer::Malformed(_)), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
                if let Bearer::Token(token) = bearer(&headers) {
                    prop_assert!(bytes[..7].eq_ignore_ascii_case(b"bearer "));
                    prop_assert!(String::from_utf8(bytes).unwrap().contains(token));
                }
            }
        }
    }
}
