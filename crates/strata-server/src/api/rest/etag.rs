//! Which version of a thing: the revision at which its record was written. What
//! is measured changes without it; a client that wants to follow that polls or
//! watches.

use axum::extract::FromRequestParts;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use strata_store::Revision;
use strata_types::{Error, ErrorKind};

use super::rejection::{Answer, Rejection};
use crate::core::Precondition;

/// The tag of a revision.
pub(super) fn etag(revision: Revision) -> HeaderValue {
    let text = format!("\"{revision}\"");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The tags of a header.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    None,
    /// Any will do.
    Any,
    /// One of these. Those that are none of ours never fit.
    Of(Vec<Revision>),
}

/// `If-Match` and `If-None-Match`.
#[derive(Debug)]
pub(super) struct Conditions {
    matching: Tags,
    unlike: Tags,
}

impl<S: Sync> FromRequestParts<S> for Conditions {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Ok(Self {
            matching: tags(&parts.headers, &IF_MATCH, "If-Match", false)?,
            unlike: tags(&parts.headers, &IF_NONE_MATCH, "If-None-Match", true)?,
        })
    }
}

impl Conditions {
    /// What must hold when a thing that is at `revision` now is changed.
    pub(super) fn to_change(&self, revision: Revision) -> Answer<Precondition> {
        match &self.matching {
            Tags::None | Tags::Any => Ok(Precondition(None)),
            Tags::Of(all) if all.contains(&revision) => Ok(Precondition(Some(revision))),
            Tags::Of(_) => Err(Rejection::outdated()),
        }
    }

    /// A race that was lost is a condition that failed, where there was one.
    pub(super) fn reject(&self, error: Error) -> Rejection {
        match (&self.matching, error.kind()) {
            (Tags::Of(_), ErrorKind::Aborted) => Rejection::outdated(),
            _ => error.into(),
        }
    }

    /// Whether the caller has this version already.
    pub(super) fn known(&self, revision: Revision) -> bool {
        match &self.unlike {
            Tags::None => false,
            Tags::Any => true,
            Tags::Of(all) => all.contains(&revision),
        }
    }
}

/// Reads `*`, or tags with commas between. To compare what was read, a weak
/// tag is as good; to change something, it never fits.
fn tags(headers: &HeaderMap, name: &HeaderName, shown: &str, weak: bool) -> Answer<Tags> {
    let mut all = Vec::new();
    let mut given = false;
    for value in headers.get_all(name) {
        given = true;
        let text = value.to_str().ok().map(str::trim);
        if text == Some("*") {
            return Ok(Tags::Any);
        }
        let read = text.and_then(|text| list(text, weak, &mut all));
        read.ok_or_else(|| {
            let why = "must be *, or tags such as \"12\" with commas between";
            Rejection::unreadable(Error::invalid(shown, why))
        })?;
    }
    Ok(if given { Tags::Of(all) } else { Tags::None })
}

/// Takes the tags of a list that may be ours; none when it is no list. What is
/// in a tag may be a comma, and there may be nothing between two of them.
fn list(mut text: &str, weak: bool, all: &mut Vec<Revision>) -> Option<()> {
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if text.is_empty() {
            return Some(());
        }
        let (rest, is_weak) = match text.strip_prefix("W/") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (tag, rest) = rest.strip_prefix('"')?.split_once('"')?;
        if let Ok(revision) = tag.parse()
            && (weak || !is_weak)
        {
            all.push(revision);
        }
        text = rest.trim_start();
        if !text.is_empty() && !text.starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, weak: bool) -> Answer<Tags> {
        let mut headers = HeaderMap::new();
        headers.insert(IF_MATCH, HeaderValue::from_str(text).unwrap());
        tags(&headers, &IF_MATCH, "If-Match", weak)
    }

    #[test]
    fn tags_are_read_as_http_has_them() {
        assert_eq!(read("*", false).unwrap(), Tags::Any);
        assert_eq!(read("\"12\"", false).unwrap(), Tags::Of(vec![12]));
        assert_eq!(read("\"1\", \"2\"", false).unwrap(), Tags::Of(vec![1, 2]));
        assert_eq!(read("\"other\"", false).unwrap(), Tags::Of(vec![]));
        assert_eq!(read("W/\"3\"", false).unwrap(), Tags::Of(vec![]));
        assert_eq!(read("W/\"3\"", true).unwrap(), Tags::Of(vec![3]));
        assert_eq!(read("", false).unwrap(), Tags::Of(vec![]));
        assert_eq!(read("\"1\", ,", false).unwrap(), Tags::Of(vec![1]));
        let commas = read("\"2,3\" , W/\",\",\"4\"", false);
        assert_eq!(commas.unwrap(), Tags::Of(vec![4]));
        for bad in ["12", "\"12", "\"1\" \"2\"", "x"] {
            assert!(read(bad, false).is_err(), "{bad:?}");
        }
        assert_eq!(etag(7), "\"7\"");
    }
}
