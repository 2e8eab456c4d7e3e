//! Labels of Kubernetes nodes: the syntax, and the names that are reserved.
//!
//! A kubelet sets the labels of its own node, and the API server accepts only
//! some of those in the namespaces of Kubernetes. What would be refused there,
//! on a machine that was booted for it, is refused here.

use std::collections::BTreeMap;

use strata_types::{Error, Result};

/// The most labels of a part of a cluster.
pub const MAX_LABELS: usize = 64;

/// Of Kubernetes' own labels, those that a kubelet may have given to it.
const ALLOWED: [&str; 5] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
];

/// Observes the labels in a field of a request.
pub fn check_labels(field: &str, labels: &BTreeMap<String, String>) -> Result<()> {
    if labels.len() > MAX_LABELS {
        let why = format!("has {} labels; {MAX_LABELS} are the most", labels.len());
        return Err(Error::invalid(field, why));
    }
    for (key, value) in labels {
        let reported = |why: &str| {
            let key: String = key.chars().take(80).collect();
            Error::invalid(field, format!("the label {key:?} {why}"))
        };
        check_key(key).map_err(reported)?;
        if !value.is_empty() && !is_word(value) {
            return Err(reported(
                "has a value that is none: at most 63 letters, digits, - _ and ., with a letter or digit at both ends",
            ));
        }
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), &'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if !is_word(name) {
        return Err(
            "has a name that is none: 1 to 63 letters, digits, - _ and ., with a letter or digit at both ends",
        );
    }
    let Some(prefix) = prefix else {
        return Ok(());
    };
    if !is_domain(prefix) {
        return Err("has a prefix that is not a domain name");
    }
    let of = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    let reserved = of("kubernetes.io") || of("k8s.io");
    let open = of("node.kubernetes.io") || of("kubelet.kubernetes.io");
    match reserved && !open && !ALLOWED.contains(&key) {
        true => Err(
            "is one of Kubernetes' own, which a node may not give itself; use a prefix of your own, or node.kubernetes.io/",
        ),
        false => Ok(()),
    }
}

/// The name of a label, or its value.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}

fn is_domain(text: &str) -> bool {
    // Each part of it is a DNS label.
    let part = |part: &str| part.parse::<strata_types::Label>().is_ok();
    text.len() <= 253 && text.split('.').all(part)
}
