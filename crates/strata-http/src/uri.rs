//! The little that is needed of URLs: which host is contacted, where a redirect
//! leads, and text as part of a query or form.

use std::fmt::Write as _;

use http::Uri;
use http::uri::Authority;

/// Which host is contacted and how; a secret is valid for one of these only.
pub fn origin(uri: &Uri) -> (Option<&str>, Option<&str>, u16) {
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    (uri.scheme_str(), uri.host(), port)
}

/// Where a `Location` leads from here: another address or another path.
pub fn follow_redirect(from: &Uri, location: &str) -> Option<Uri> {
    let next: Uri = location.parse().ok()?;
    if next.scheme().is_some() {
        let http = matches!(next.scheme_str(), Some("http" | "https"));
        return (http && next.authority().is_some_and(no_user)).then_some(next);
    }
    if !location.starts_with('/') || location.starts_with("//") {
        return None;
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = next.into_parts().path_and_query;
    Uri::from_parts(parts).ok()
}

fn no_user(authority: &Authority) -> bool {
    !authority.as_str().contains('@')
}

/// `a:b/c` as `a%3Ab%2Fc`.
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Fields as a form: `a=b&c=d%20e`.
pub fn form(fields: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| {
        format!("{}={}", percent_encode(name), percent_encode(value))
    };
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_other_hosts_or_paths() {
        let from: Uri = "https://r.io:5000/v2/a?x=1".parse().unwrap();
        let to = |location| follow_redirect(&from, location).map(|uri| uri.to_string());
        assert_eq!(to("/b?y=2").as_deref(), Some("https://r.io:5000/b?y=2"));
        assert_eq!(to("http://s.io/b").as_deref(), Some("http://s.io/b"));
        for bad in [
            "file:///etc/passwd",
            "//s.io/b",
            "b",
            "https://u:p@s.io/",
            "",
        ] {
            assert_eq!(to(bad), None, "{bad}");
        }
    }

    #[test]
    fn default_ports_are_the_same_origin() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let (a, b) = (uri("https://r.io/a"), uri("https://r.io:443/b"));
        assert_eq!(origin(&a), origin(&b));
        assert_ne!(origin(&a), origin(&uri("http://r.io:443/")));
    }

    #[test]
    fn values_are_escaped() {
        let scope = percent_encode("repository:a/b:pull");
        assert_eq!(scope, "repository%3Aa%2Fb%3Apull");
        let text = form(&[("a", "b c&d=é"), ("op", "x")]);
        assert_eq!(text, "a=b%20c%26d%3D%C3%A9&op=x");
    }
}
