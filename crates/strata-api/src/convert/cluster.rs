//! Clusters: what is asked of one, into checked types, and how it stands, back.

use std::collections::BTreeMap;
use std::fmt;

use strata_types::cluster::{ClusterStatus, ControlPlane, InstanceType, NodePool};
use strata_types::{Error, Result};

use crate::kaas;

/// A kubeconfig is a credential: it is not printed.
impl fmt::Debug for kaas::ClusterDetailItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterDetailItem")
            .field("name", &self.name)
            .field("status_message", &self.status_message)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl From<ClusterStatus> for kaas::ClusterStatus {
    fn from(status: ClusterStatus) -> Self {
        match status {
            ClusterStatus::Unspecified => Self::StatusUnspecified,
            ClusterStatus::Provisioning => Self::Provisioning,
            ClusterStatus::Running => Self::Running,
            ClusterStatus::Reconciling => Self::Reconciling,
            ClusterStatus::Stopping => Self::Stopping,
            ClusterStatus::Error => Self::Error,
            ClusterStatus::Degraded => Self::Degraded,
        }
    }
}

impl TryFrom<kaas::ControlPlaneMachineSpec> for ControlPlane {
    type Error = Error;

    fn try_from(wire: kaas::ControlPlaneMachineSpec) -> Result<Self> {
        let field = |name: &str| format!("control_plane_nodes.{name}");
        Ok(Self {
            count: count(field("count"), wire.count)?,
            instance_type: instance_type(field("instanceType"), &wire.instance_type)?,
            labels: labels(&field("labels"), wire.labels)?,
            // The published document has no word for it.
            pod_security: None,
        })
    }
}

impl kaas::MachineSpec {
    /// The pool that is asked for; `at` is its place in the list.
    pub fn into_pool(self, at: usize) -> Result<NodePool> {
        let field = |name: &str| format!("worker_node_pools[{at}].{name}");
        Ok(NodePool {
            count: count(field("count"), self.count)?,
            instance_type: instance_type(field("instanceType"), &self.instance_type)?,
            labels: labels(&field("labels"), self.labels)?,
            name: self.name,
        })
    }
}

impl kaas::ScaleNodePoolSpec {
    /// The pool and the size that is asked for; `at` is its place in the list.
    pub fn into_size(self, at: usize) -> Result<(String, u32)> {
        let size = count(format!("node_pools[{at}].count"), self.count)?;
        Ok((self.name, size))
    }
}

fn count(field: String, count: i32) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::invalid(field, format!("must not be {count}")))
}

fn instance_type(field: String, text: &str) -> Result<InstanceType> {
    text.parse().map_err(|why: &str| {
        let text: String = text.chars().take(40).collect();
        Error::invalid(field, format!("{why}, not {text:?}"))
    })
}

/// A label that is told twice would be told by whichever comes last.
fn labels(field: &str, wire: Vec<kaas::KubernetesLabel>) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (at, label) in wire.into_iter().enumerate() {
        if labels.contains_key(&label.name) {
            let name: String = label.name.chars().take(80).collect();
            let why = format!("the label {name:?} is given twice");
            return Err(Error::invalid(format!("{field}[{at}].name"), why));
        }
        labels.insert(label.name, label.value);
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: i32, instance_type: &str, labels: &[(&str, &str)]) -> kaas::MachineSpec {
        let label = |(name, value): &(&str, &str)| kaas::KubernetesLabel {
            name: (*name).into(),
            value: (*value).into(),
        };
        kaas::MachineSpec {
            name: "web".into(),
            labels: labels.iter().map(label).collect(),
            instance_type: instance_type.into(),
            count,
        }
    }

    #[test]
    fn every_status_has_its_number_of_the_published_document() {
        let all = [
            ClusterStatus::Unspecified,
            ClusterStatus::Provisioning,
            ClusterStatus::Running,
            ClusterStatus::Reconciling,
            ClusterStatus::Stopping,
            ClusterStatus::Error,
            ClusterStatus::Degraded,
        ];
        let numbers = all.map(|status| kaas::ClusterStatus::from(status) as i32);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn invalid_configuration_names_its_field() {
        let field = |wire: kaas::MachineSpec| {
            let error = wire.into_pool(1).unwrap_err();
            error.field().map(str::to_owned).unwrap()
        };
        assert_eq!(field(pool(-1, "", &[])), "worker_node_pools[1].count");
        assert_eq!(
            field(pool(1, "huge", &[])),
            "worker_node_pools[1].instanceType"
        );
        assert_eq!(
            field(pool(1, "", &[("a", "b"), ("a", "b")])),
            "worker_node_pools[1].labels[1].name"
        );
        let good = pool(2, "gpu", &[("a", "b"), ("c", "")]).into_pool(0);
        let good = good.unwrap();
        assert_eq!(
            (good.count, good.instance_type, good.labels.len()),
            (2, InstanceType::Gpu, 2)
        );
    }

    #[test]
    fn a_kubeconfig_is_not_printed() {
        let item = kaas::ClusterDetailItem {
            name: "dev".into(),
            kubeconfig: "hunter2".into(),
            ..Default::default()
        };
        let text = format!("{item:?}");
        assert!(text.contains("dev") && !text.contains("hunter2"), "{text}");
    }
}
