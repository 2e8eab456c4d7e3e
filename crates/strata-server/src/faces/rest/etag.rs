//! Which version of a thing: the revision at which its record was written.
//! What is measured changes without it; whoever wants to follow that asks
//! again or watches.

use axum::extract::FromRequestParts;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use strata_store::Revision;
use strata_types::{Error, ErrorKind};

use super::refusal::{Answer, Refusal};
use crate::core::Precondition;

/// The tag of a revision.
pub(super) fn etag(revision: Revision) -> HeaderValue {
    let text = format!("\"{revision}\"");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// What a header says of tags.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    /// Nothing.
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
    type Rejection = Refusal;

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
            Tags::Of(_) => Err(Refusal::outdated()),
        }
    }

    /// A race that was lost is a condition that failed, where there was one.
    pub(super) fn judge(&self, error: Error) -> Refusal {
        match (&self.matching, error.kind()) {
            (Tags::Of(_), ErrorKind::Aborted) => Refusal::outdated(),
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
        let bad = || {
            let why = "must be *, or tags such as \"12\" with commas between";
            Refusal::unreadable(Error::invalid(shown, why))
        };
        let text = value.to_str().map_err(|_| bad())?.trim();
        if text == "*" {
            return Ok(Tags::Any);
        }
        for tag in text.split(',') {
            let tag = tag.trim();
            let (tag, is_weak) = match tag.strip_prefix("W/") {
                Some(tag) => (tag, true),
                None => (tag, false),
            };
            let bare = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let bare = bare.filter(|tag| !tag.contains('"')).ok_or_else(bad)?;
            if let Ok(revision) = bare.parse()
                && (weak || !is_weak)
            {
                all.push(revision);
            }
        }
    }
    Ok(if given { Tags::Of(all) } else { Tags::None })
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
        for bad in ["", "12", "\"12", "\"1\" \"2\"", "\"1\",", "x"] {
            assert!(read(bad, false).is_err(), "{bad:?}");
        }
        assert_eq!(etag(7), "\"7\"");
    }
}
