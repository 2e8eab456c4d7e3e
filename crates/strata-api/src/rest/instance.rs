//! The instance resource.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::instance::{
    Claim, DesiredState, HealthSpec, InstanceKind, InstanceState, PlacementRules, SecuritySpec,
};
use strata_types::pod::RestartPolicy;

/// An instance. The fields of the published document are always present; the
/// others only when they are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Unique ID.
    pub id: String,
    /// Name, unique in the project.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: InstanceKind,
    /// Observed state.
    pub status: InstanceState,
    /// Image reference.
    pub uri: String,
    /// Environment variables, `KEY=VALUE`. Viewers see `KEY=***`.
    pub environment: Vec<String>,
    /// Resource limits and measured usage.
    pub resources: Claim,
    /// Maximum number of processes and threads. Default: 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Published ports, `HOST:CONTAINER[/udp]`.
    pub ports: Vec<String>,
    /// Project.
    pub project: String,
    /// Reason for the present state, for people.
    #[serde(default)]
    pub description: String,
    /// Desired state.
    pub wanted: DesiredState,
    /// Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// IP address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// ID of the workload it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_id: Option<String>,
    /// Number of restarts.
    pub restarts: u32,
    /// Exit code of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Result of the health check, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Incremented with each change of the specification.
    pub generation: u64,
    /// Principal that created it.
    #[serde(default)]
    pub owner: String,
    /// Creation time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time of the last change of state.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
    /// Labels, for selectors and affinity rules.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Placement rules.
    #[serde(default)]
    pub placement: PlacementRules,
    /// Overrides the entry point of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Overrides the command of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Overrides the user of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Overrides the working directory of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Volume mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Secrets passed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether an init runs as PID 1 instead of the program. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Health check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthSpec>,
    /// Restart policy.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// Seconds between SIGTERM and SIGKILL. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace_seconds: Option<u32>,
    /// Security settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security: SecuritySpec,
    /// User data for cloud-init in a virtual machine. Viewers see `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
