//! Kubernetes clusters: specification, members and state.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::machine::MachineId;

/// The name of a cluster, and of a pool in it: a DNS label.
pub type ClusterName = crate::Label;

/// A version of Kubernetes: `v1.34.4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion {
    /// 1.
    pub major: u16,
    /// 34.
    pub minor: u16,
    /// 4.
    pub patch: u16,
}

impl KubernetesVersion {
    /// A version by its numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether both are of the same minor version.
    pub const fn is_sibling(self, other: Self) -> bool {
        self.major == other.major && self.minor == other.minor
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("v{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl FromStr for KubernetesVersion {
    type Err = &'static str;

    /// `v1.34.4` or `1.34.4`, and nothing else.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHY: &str = "must be a version such as v1.34.4";
        let number = |text: &str| -> Option<u16> {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit())
                && (text.len() == 1 || !text.starts_with('0'));
            plain.then(|| text.parse().ok()).flatten()
        };
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let (Some(major), Some(minor), Some(patch), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(WHY);
        };
        match (number(major), number(minor), number(patch)) {
            (Some(major), Some(minor), Some(patch)) => Ok(Self::new(major, minor, patch)),
            _ => Err(WHY),
        }
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KubernetesVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Type of the machines of a node pool or control plane.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InstanceType {
    /// Any machine without a GPU.
    #[default]
    Standard,
    /// One with a GPU.
    Gpu,
}

impl InstanceType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Gpu => "gpu",
        }
    }
}

impl fmt::Display for InstanceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for InstanceType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            // The published document leaves it open what empty means.
            "" | "standard" => Ok(Self::Standard),
            "gpu" => Ok(Self::Gpu),
            _ => Err("must be standard or gpu"),
        }
    }
}

/// Level of the Pod Security Standards for namespaces without labels of their
/// own.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PodSecurityLevel {
    /// `privileged`: no restrictions.
    Privileged,
    /// `baseline`: prevents known privilege escalations.
    #[default]
    Baseline,
    /// `restricted`: hardened pods only.
    Restricted,
}

impl PodSecurityLevel {
    /// The word of the Pod Security Standards.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl fmt::Display for PodSecurityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PodSecurityLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Privileged, Self::Baseline, Self::Restricted];
        let found = all.into_iter().find(|level| level.as_str() == text);
        found.ok_or("must be privileged, baseline or restricted")
    }
}

/// The machines that control a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlPlane {
    /// Number of machines: 1, 3 or 5.
    pub count: u32,
    /// Type of the machines.
    #[serde(default)]
    pub instance_type: InstanceType,
    /// Labels of their Kubernetes nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Pod Security level enforced in namespaces without labels of their own.
    /// Default: baseline. Absent in clusters that predate this setting, which
    /// enforce nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurityLevel>,
}

/// A node pool: a named group of worker nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePool {
    /// Name: a DNS label, unique in the cluster.
    pub name: String,
    /// Number of machines.
    pub count: u32,
    /// Type of the machines.
    #[serde(default)]
    pub instance_type: InstanceType,
    /// Labels of their Kubernetes nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Specification of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Kubernetes version, e.g. `v1.34.4`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub version: KubernetesVersion,
    /// Control plane.
    pub control_plane: ControlPlane,
    /// Node pools.
    #[serde(default)]
    pub pools: Vec<NodePool>,
}

/// Role of a machine in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClusterRole {
    /// Runs etcd, the API server and the controllers.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

impl ClusterRole {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for ClusterRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A machine allocated to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Machine ID; also the name of its Kubernetes node.
    pub machine: MachineId,
    /// What it is.
    pub role: ClusterRole,
    /// Node pool of a worker; empty for the control plane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Number in the cluster, from which the pod subnet is derived. Free again
    /// once the machine is released.
    pub number: u8,
    /// Labels of its Kubernetes node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Installed Kubernetes version.
    pub version: KubernetesVersion,
    /// IP address, once it is up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Whether it has joined: its Kubernetes node is expected to exist.
    #[serde(default)]
    pub joined: bool,
    /// Time of allocation, in Unix milliseconds; the newest is released first.
    pub added_at_ms: i64,
}

/// State of a cluster, with the names and numbers of the published document.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum ClusterStatus {
    /// Not observed yet.
    #[default]
    Unspecified,
    /// Being created; not usable yet.
    Provisioning,
    /// Running as specified.
    Running,
    /// Usable, and being changed.
    Reconciling,
    /// Being deleted.
    Stopping,
    /// Not usable.
    Error,
    /// Usable, but degraded.
    Degraded,
}

impl ClusterStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "UNSPECIFIED",
            Self::Provisioning => "PROVISIONING",
            Self::Running => "RUNNING",
            Self::Reconciling => "RECONCILING",
            Self::Stopping => "STOPPING",
            Self::Error => "ERROR",
            Self::Degraded => "DEGRADED",
        }
    }
}

impl fmt::Display for ClusterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_written() {
        let version = KubernetesVersion::new(1, 34, 4);
        assert_eq!("v1.34.4".parse(), Ok(version));
        assert_eq!("1.34.4".parse(), Ok(version));
        assert_eq!(version.to_string(), "v1.34.4");
        for wrong in [
            "",
            "v1",
            "1.34",
            "v1.34.x",
            "v1.34.4.1",
            "v1.034.4",
            "vv1.34.4",
            "1.34.-4",
        ] {
            assert!(wrong.parse::<KubernetesVersion>().is_err(), "{wrong}");
        }
        assert!(version < KubernetesVersion::new(1, 35, 0));
        assert!(version > KubernetesVersion::new(1, 9, 40));
    }
}
