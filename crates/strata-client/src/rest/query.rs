//! Paths and queries of requests. Names come from people: whatever means
//! something in a URL is written in its other form.

use std::fmt::Write as _;

/// What stands behind the `?`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Nothing is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `key=value`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.push((key, value.into()));
        self
    }

    /// Asks for `key=value`, if there is one.
    #[must_use]
    pub fn maybe(self, key: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Only what is of `project`, if that was said.
    #[must_use]
    pub fn project(self, project: Option<&str>) -> Self {
        self.maybe("project", project)
    }
}

/// `/route/name/tail?query`. Without a name it is about all there are, or the
/// one there is: `/storage/expand`.
pub(super) fn target(route: &str, name: &str, tail: &str, query: &Query) -> String {
    let mut target = format!("/{route}/");
    escape(&mut target, name);
    if !name.is_empty() && !tail.is_empty() {
        target.push('/');
    }
    target.push_str(tail);
    for (i, (key, value)) in query.0.iter().enumerate() {
        target.push(if i == 0 { '?' } else { '&' });
        target.push_str(key);
        target.push('=');
        escape(&mut target, value);
    }
    target
}

/// `part/which`: one of the things that belong to an object.
pub(super) fn tail(part: &str, which: &str) -> String {
    let mut tail = format!("{part}/");
    escape(&mut tail, which);
    tail
}

fn escape(into: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                into.push(char::from(byte));
            }
            _ => {
                let _ = write!(into, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        let query = Query::new().project(Some("a&b")).maybe("x", None::<&str>);
        let query = query.with("limit", "5");
        assert_eq!(
            target("instance", "shop/web ü?", "placement", &query),
            "/instance/shop%2Fweb%20%C3%BC%3F/placement?project=a%26b&limit=5"
        );
        assert_eq!(target("node", "", "", &Query::new()), "/node/");
        assert_eq!(
            target("storage", "", "expand", &Query::new()),
            "/storage/expand"
        );
        assert_eq!(tail("snapshot", "a/b"), "snapshot/a%2Fb");
    }
}
