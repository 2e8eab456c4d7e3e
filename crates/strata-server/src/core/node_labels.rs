//! Which labels of a node placement goes by (decision 46). A label attracts
//! what selects on it, with its secrets, so a node does not give itself one.
//!
//! ```text
//! what a node reports ─┬─ measured (arch, kernel, hostname) ──▶ labels
//!                      └─ of its configuration ─┬─ trusted ───▶ labels
//!                                               ├─ granted ───▶ own_labels, once
//!                                               └─ else ──────▶ requested_labels
//! people, the join token, the machine's record ───────────────▶ own_labels
//! ```
//!
//! `own_labels` go before `labels`, and stay when the node reports them no
//! more: a node that drops a label would attract what avoids it. What is
//! requested is shown, and decides nothing until it is accepted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_identity::{CertificateId, JoinBinding};
use strata_types::{Error, Result};

use super::Core;
use super::claims::may_label;
use super::nodes::NodeFacts;
use super::record::Node;

type Labels = BTreeMap<String, String>;

const HOSTNAME: &str = "strata.dev/hostname";
/// What a node measures of its host; placement trusts the node's report.
pub(super) const MEASURED: [&str; 3] = ["strata.dev/arch", HOSTNAME, "strata.dev/kernel"];

const MAX_KEY_LENGTH: usize = 128;
const MAX_VALUE_LENGTH: usize = 256;

/// Whether the labels of a node's configuration are taken without a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LabelTrust {
    #[default]
    Never,
    /// The next ones are: it joined with a token that says so.
    Once,
    /// All are: it runs in the process of a server, which reads the same
    /// configuration.
    Always,
}

impl LabelTrust {
    pub(super) fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// The labels that a node has from the token it joined with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelGrant {
    /// Set as if an admin had set them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// Those of its configuration are accepted with its first report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepts: bool,
}

impl LabelGrant {
    /// What a join token grants.
    pub(super) fn of(binding: Option<&JoinBinding>) -> Self {
        binding.map_or_else(Self::default, |binding| Self {
            labels: binding.labels.clone(),
            accepts: binding.accepts_labels,
        })
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Has a node that joins have them; what it was trusted with before was
    /// another's.
    pub(super) fn apply(&self, node: &mut Node) {
        node.own_labels.extend(self.labels.clone());
        node.label_trust = match self.accepts {
            true => LabelTrust::Once,
            false => LabelTrust::Never,
        };
    }
}

/// Refuses what is no label.
pub(crate) fn check<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Result<()> {
    let plain = |text: &str| !text.contains(char::is_control);
    let good = |(key, value): &(&String, &String)| {
        !key.is_empty()
            && key.len() <= MAX_KEY_LENGTH
            && value.len() <= MAX_VALUE_LENGTH
            && plain(key)
            && plain(value)
    };
    match labels.into_iter().find(|label| !good(label)) {
        None => Ok(()),
        Some((key, _)) => {
            let key: String = key.chars().take(80).collect();
            let why = "must be 1 to 128 characters, its value at most 256";
            Err(Error::invalid(format!("labels.{key}"), why))
        }
    }
}

/// Takes what a node reports of its labels.
pub(super) fn take(node: &mut Node, reported: &Labels) {
    let plain = |text: &str| !text.contains(char::is_control);
    let may = reported
        .iter()
        .filter(|(key, value)| may_label(key) && plain(key) && plain(value));
    let may = may.map(|(key, value)| (key.clone(), value.clone()));
    let (measured, configured): (Labels, Labels) =
        may.partition(|(key, _)| MEASURED.contains(&key.as_str()));
    // A record of a release that took every label: those it had were in force,
    // and what was placed by them is there.
    if node.requested_labels.is_none() && node.label_trust != LabelTrust::Always {
        let had = std::mem::take(&mut node.labels).into_iter();
        for (key, value) in had.filter(|(key, _)| !MEASURED.contains(&key.as_str())) {
            node.own_labels.entry(key).or_insert(value);
        }
    }
    node.labels = measured;
    match node.label_trust {
        LabelTrust::Always => {
            node.labels.extend(configured);
            node.requested_labels = Some(Labels::new());
            return;
        }
        LabelTrust::Once => {
            for (key, value) in &configured {
                let entry = node.own_labels.entry(key.clone());
                entry.or_insert_with(|| value.clone());
            }
            node.label_trust = LabelTrust::Never;
        }
        LabelTrust::Never => {}
    }
    node.requested_labels = Some(configured);
    resolve_labels(node);
}

/// What is so already is not requested.
pub(super) fn resolve_labels(node: &mut Node) {
    if let Some(requested) = &mut node.requested_labels {
        requested.retain(|key, value| node.own_labels.get(key) != Some(value));
    }
}

/// The node that a host name is taken from, if it is another's: its name, or
/// what it has reported before.
pub(super) fn hostname_holder<'a>(
    name: &str,
    reported: &Labels,
    mut others: impl Iterator<Item = &'a Node>,
) -> Option<&'a str> {
    let claimed = reported.get(HOSTNAME)?;
    let has = |other: &&Node| {
        other.name != name
            && (other.name == *claimed || other.labels.get(HOSTNAME) == Some(claimed))
    };
    others.find(has).map(|other| other.name.as_str())
}

impl Core {
    /// The labels of the node with this key are trusted: it runs in this
    /// process. The first key stays.
    pub fn trust_local_node(&self, key: &str) {
        let _ = self.0.local_node_key.set(key.to_owned());
    }

    /// Whether the node with this certificate runs in this process.
    pub(crate) fn is_local_node(&self, certificate: &CertificateId) -> bool {
        self.0.local_node_key.get() == Some(&certificate.key)
    }

    /// What the token granted that the lineage of a certificate began with.
    pub(super) fn label_grant(&self, serial: &str) -> LabelGrant {
        let first = |serial: &str| self.certificates().get(serial).ok();
        let lineage = first(serial).map(|one| one.lineage.clone());
        let found = lineage.and_then(|serial| first(&serial));
        found.map_or_else(LabelGrant::default, |one| one.label_grant.clone())
    }

    /// Checks what a node reports of its labels against what is known. A host
    /// name that another node has, or is called by, is not accepted: a selector
    /// by it means that node.
    pub(crate) fn claim_labels(&self, certificate: &CertificateId, facts: &mut NodeFacts) {
        if self.is_local_node(certificate) {
            facts.label_trust = Some(LabelTrust::Always);
        }
        let Some(reported) = &mut facts.labels else {
            return;
        };
        let name = certificate.name.as_str();
        let holder = {
            let tables = self.tables();
            let others = tables.nodes.values().map(|stored| &stored.record);
            hostname_holder(name, reported, others).map(str::to_owned)
        };
        if let Some(holder) = holder {
            tracing::debug!(
                node = name,
                holder,
                "node reports the host name of another node"
            );
            reported.remove(HOSTNAME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn node(extra: &serde_json::Value) -> Node {
        let mut text = serde_json::json!({
            "name": "n1", "subnet": "10.42.1.0/24", "createdAtMs": 0, "changedAtMs": 0,
        });
        text.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        serde_json::from_value(text).unwrap()
    }

    fn new() -> Node {
        node(&serde_json::json!({ "requestedLabels": {} }))
    }

    const REPORTED: [(&str, &str); 7] = [
        ("strata.dev/arch", "amd64"),
        ("zone", "a"),
        ("example.com/disk", "ssd"),
        ("strata.dev/trust", "high"),
        ("node-restriction.strata.dev/pci", "yes"),
        ("a.b.strata.dev/x", "y"),
        ("odd", "a\nb"),
    ];

    #[test]
    fn measured_node_labels_are_set_and_others_requested() {
        let mut one = new();
        take(&mut one, &labels(&REPORTED));
        assert_eq!(one.all_labels(), labels(&[("strata.dev/arch", "amd64")]));
        let requested = labels(&[("example.com/disk", "ssd"), ("zone", "a")]);
        assert_eq!(one.requested_labels, Some(requested));
        // What a person has set is not requested any more, nor removed by a
        // node that reports it no more.
        one.own_labels = labels(&[("zone", "a"), ("example.com/disk", "hdd")]);
        take(&mut one, &labels(&REPORTED));
        let requested = labels(&[("example.com/disk", "ssd")]);
        assert_eq!(one.requested_labels, Some(requested));
        take(&mut one, &Labels::new());
        assert_eq!(one.all_labels().get("zone").map(String::as_str), Some("a"));
    }

    #[test]
    fn join_token_grants_labels_once() {
        let mut one = new();
        let grant = LabelGrant {
            labels: labels(&[("zone", "b")]),
            accepts: true,
        };
        grant.apply(&mut one);
        take(&mut one, &labels(&REPORTED));
        assert_eq!(one.own_labels["example.com/disk"], "ssd");
        assert_eq!(
            one.own_labels["zone"], "b",
            "the token goes before the node"
        );
        take(&mut one, &labels(&[("pci", "yes")]));
        assert!(!one.all_labels().contains_key("pci"));
        LabelGrant::default().apply(&mut one);
        assert!(one.label_trust.is_never());
    }

    #[test]
    fn labels_of_an_earlier_release_stay_in_force_and_no_others_come() {
        let mut old = node(&serde_json::json!({
            "labels": { "zone": "a", "disk": "ssd", "strata.dev/kernel": "6" },
            "ownLabels": { "disk": "hdd" },
        }));
        take(&mut old, &labels(&[("zone", "pci"), ("disk", "ssd")]));
        assert_eq!(old.all_labels(), labels(&[("zone", "a"), ("disk", "hdd")]));
        take(&mut old, &labels(&[("rack", "7")]));
        assert_eq!(old.all_labels(), labels(&[("zone", "a"), ("disk", "hdd")]));
    }

    #[test]
    fn local_node_gets_its_configured_labels() {
        let mut own = new();
        own.label_trust = LabelTrust::Always;
        take(&mut own, &labels(&REPORTED));
        assert_eq!(own.all_labels()["zone"], "a");
        assert!(!own.all_labels().contains_key("strata.dev/trust"));
        take(&mut own, &Labels::new());
        assert!(own.all_labels().is_empty());
    }

    #[test]
    fn hostname_label_is_unique() {
        let mut other =
            node(&serde_json::json!({ "labels": { "strata.dev/hostname": "rack1-7" } }));
        other.name = "n2".into();
        let holder = |name: &str, claimed: &str| {
            let reported = labels(&[(HOSTNAME, claimed)]);
            hostname_holder(name, &reported, [other.clone()].iter()).map(str::to_owned)
        };
        assert_eq!(holder("n1", "rack1-7"), Some("n2".into()));
        assert_eq!(holder("n1", "n2"), Some("n2".into()));
        assert_eq!(holder("n1", "rack1-8"), None);
        assert_eq!(holder("n2", "rack1-7"), None);
    }
}
