//! `WWW-Authenticate`: what a registry requires.

/// What a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password with every request.
    Basic,
    /// A token from a token server.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// The first challenge of a header that we can answer.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = rest;
        while let Some((key, value, after)) = parameter(rest) {
            match key.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer {
            realm: realm?,
            service,
            scope,
        })
    }
}

/// `key="value"` or `key=value`, and what follows the comma.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (key, rest) = text.split_once('=')?;
    let key = key.trim_matches([' ', ',']);
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((key, rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((key, value, &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        assert_eq!(
            Challenge::parse(
                r#"Bearer realm="https://a.io/token",service="r.io",scope="repository:a/b:pull,push""#
            ),
            Some(Challenge::Bearer {
                realm: "https://a.io/token".into(),
                service: Some("r.io".into()),
                scope: Some("repository:a/b:pull,push".into()),
            })
        );
        assert_eq!(
            Challenge::parse(r#"Basic realm="x""#),
            Some(Challenge::Basic)
        );
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
        assert_eq!(Challenge::parse(r#"Bearer service="x""#), None);
        assert_eq!(Challenge::parse("Negotiate"), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_not(text in "(Bearer |Basic |)[ -~]{0,60}") {
            let _ = Challenge::parse(&text);
        }
    }
}
