//! The subject of a REST request: what stands for `{…}` in its route; of what
//! is made, the name in the body.

use serde_json::Value;
use strata_identity::policy::Policy;

use super::SubjectMatch;

/// The published gateway of clusters names them in the query or the body.
const GATEWAY: &str = "/api/v1/";

/// What a request is about.
pub(super) fn find(
    policy: Policy,
    (method, path): (&str, &str),
    query: Option<&str>,
    body: &[u8],
) -> Option<SubjectMatch> {
    let route = policy.http_route(&format!("{method} {path}"))?.path;
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |field: &str| {
        let text = body.get(field)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let project = parameter(query, "project").or_else(|| text("project"));
    if let Some(rest) = route.strip_prefix(GATEWAY) {
        let named = || text("name").or_else(|| text("clusterName"));
        let name = parameter(query, "name").or_else(|| parameter(query, "clusterName"));
        return Some(SubjectMatch {
            kind: rest.split('/').next().unwrap_or_default().to_owned(),
            name: name.or_else(named).unwrap_or_default(),
            ..SubjectMatch::default()
        });
    }
    let route: Vec<&str> = segments(route).collect();
    let kind = (*route.first()?).to_owned();
    let last = route.iter().rposition(|segment| segment.starts_with('{'));
    let Some(last) = last else {
        let name = text("name").or_else(|| text("id")).unwrap_or_default();
        let kind = match route.as_slice() {
            // `/storage/volume`, not `/storage/expand`.
            [first, second] if !name.is_empty() => format!("{first}/{second}"),
            _ => kind,
        };
        return Some(SubjectMatch {
            kind,
            name,
            project,
            is_new: method == "PUT",
        });
    };
    let found = segments(path).map(decoded).skip(1).take(last);
    Some(SubjectMatch {
        kind,
        name: found.collect::<Vec<_>>().join("/"),
        project,
        is_new: false,
    })
}

/// Whether the name is not in the path.
pub(super) fn is_in_body(policy: Policy, method: &str, path: &str) -> bool {
    let route = policy.http_route(&format!("{method} {path}"));
    let named = |route: &str| route.contains('{') && !route.starts_with(GATEWAY);
    matches!(method, "PUT" | "POST") && route.is_some_and(|route| !named(route.path))
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.trim_matches('/').split('/')
}

fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    Some(decoded(&value.replace('+', " "))).filter(|value| !value.is_empty())
}

/// Without percent-encoding. What is no text becomes �.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use strata_identity::policy::{HttpRoute, OPERATE};

    use super::*;

    const POLICY: Policy = Policy::new(&[
        HttpRoute::new("PUT", "/instance", OPERATE),
        HttpRoute::new("DELETE", "/instance/{id}", OPERATE),
        HttpRoute::new("POST", "/instance/{id}/exec", OPERATE),
        HttpRoute::new("PUT", "/secret", OPERATE),
        HttpRoute::new("PATCH", "/secret/{id}", OPERATE),
        HttpRoute::new("PUT", "/storage/volume", OPERATE),
        HttpRoute::new("POST", "/storage/expand", OPERATE),
        HttpRoute::new("DELETE", "/cluster/{id}/pool/{pool}", OPERATE),
        HttpRoute::new("POST", "/api/v1/cluster", OPERATE),
        HttpRoute::new("DELETE", "/api/v1/cluster", OPERATE),
        HttpRoute::new("DELETE", "/api/v1/cluster/pool", OPERATE),
    ]);

    fn found(method: &str, target: &str, body: &str) -> (String, String, Option<String>) {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let found = find(POLICY, (method, path), query, body.as_bytes()).unwrap();
        (found.kind, found.name, found.project)
    }

    #[test]
    fn object_is_named_by_the_path_or_by_the_body_of_what_is_made() {
        for (method, target, body, kind, name, project) in [
            ("DELETE", "/instance/web/", "", "instance", "web", None),
            ("POST", "/instance/web/exec", "{}", "instance", "web", None),
            ("PATCH", "/secret/shop%2Fdb", "", "secret", "shop/db", None),
            (
                "DELETE",
                "/instance/web?project=shop",
                "",
                "instance",
                "web",
                Some("shop"),
            ),
            (
                "PUT",
                "/instance",
                r#"{"name":"a","project":"p"}"#,
                "instance",
                "a",
                Some("p"),
            ),
            (
                "PUT",
                "/instance?project=p",
                r#"{"id":"i"}"#,
                "instance",
                "i",
                Some("p"),
            ),
            ("PUT", "/instance", "not JSON", "instance", "", None),
            (
                "PUT",
                "/storage/volume",
                r#"{"name":"v"}"#,
                "storage/volume",
                "v",
                None,
            ),
            (
                "POST",
                "/storage/expand",
                r#"{"bytes":1}"#,
                "storage",
                "",
                None,
            ),
            (
                "DELETE",
                "/cluster/c/pool/p",
                "",
                "cluster",
                "c/pool/p",
                None,
            ),
            (
                "POST",
                "/api/v1/cluster",
                r#"{"name":"c"}"#,
                "cluster",
                "c",
                None,
            ),
            ("DELETE", "/api/v1/cluster?name=c", "", "cluster", "c", None),
            (
                "DELETE",
                "/api/v1/cluster/pool",
                r#"{"clusterName":"c"}"#,
                "cluster",
                "c",
                None,
            ),
            // The last of two counts, as it does for the handler.
            (
                "PUT",
                "/secret",
                r#"{"name":"a","name":"b"}"#,
                "secret",
                "b",
                None,
            ),
        ] {
            let expected = (kind.to_owned(), name.to_owned(), project.map(str::to_owned));
            assert_eq!(found(method, target, body), expected, "{method} {target}");
        }
        assert_eq!(find(POLICY, ("GET", "/nowhere"), None, b""), None);
    }

    #[test]
    fn body_is_read_only_where_the_path_has_no_name() {
        assert!(is_in_body(POLICY, "PUT", "/instance"));
        assert!(is_in_body(POLICY, "POST", "/api/v1/cluster"));
        assert!(!is_in_body(POLICY, "POST", "/instance/web/exec"));
        assert!(!is_in_body(POLICY, "DELETE", "/instance/web"));
    }

    #[test]
    fn percent_encoding_of_any_kind_is_read() {
        assert_eq!(decoded("a%2Fb%"), "a/b%");
        assert_eq!(decoded("%ff%zz"), "\u{fffd}%zz");
    }
}
