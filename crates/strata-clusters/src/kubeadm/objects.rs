//! The few fields of Kubernetes' objects that are read here.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A list of objects.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct List<T> {
    // Explicitly null in an empty list of some servers.
    #[serde(default = "Vec::new", deserialize_with = "nullable")]
    pub(super) items: Vec<T>,
}

fn nullable<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) owner_references: Vec<Owner>,
    pub(super) creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    #[serde(rename = "lastTransitionTime")]
    pub(super) since: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    pub(super) spec: NodeSpec,
    pub(super) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    pub(super) unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeStatus {
    pub(super) conditions: Vec<Condition>,
    pub(super) node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeInfo {
    pub(super) kubelet_version: String,
}

impl Node {
    /// Its condition of readiness.
    pub(super) fn readiness(&self) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == "Ready")
    }

    pub(super) fn is_ready(&self) -> bool {
        self.readiness().is_some_and(|ready| ready.status == "True")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) conditions: Vec<Condition>,
}

impl Pod {
    /// `NAMESPACE/NAME`.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    pub(super) fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
    }

    /// Since when it is not ready, in Unix milliseconds, where it reports that.
    pub(super) fn unready_since_ms(&self) -> Option<i64> {
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == "Ready");
        let since = ready.and_then(|condition| condition.since.as_ref());
        let since = since.or(self.metadata.creation_timestamp.as_ref())?;
        let since: jiff::Timestamp = since.parse().ok()?;
        Some(since.as_millisecond())
    }

    /// It ran to its end, well or badly.
    pub(super) fn is_over(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// It is a file on its machine, and the API shows it only.
    pub(super) fn is_mirror(&self) -> bool {
        let key = "kubernetes.io/config.mirror";
        self.metadata.annotations.contains_key(key)
    }

    pub(super) fn is_of_daemon_set(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.kind == "DaemonSet")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    pub(super) metadata: Metadata,
    pub(super) status: BudgetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus {
    pub(super) disruptions_allowed: i64,
    pub(super) expected_pods: i64,
}

/// What an API server reports of its version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Version {
    pub(super) git_version: String,
}
