//! An instance, as it is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::instance::{
    Claim, HealthSpec, InstanceKind, InstanceState, PlacementRules, SecuritySpec,
};
use strata_types::pod::RestartPolicy;

/// What somebody wants of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Wanted {
    /// That it runs.
    #[default]
    Running,
    /// That it rests.
    Stopped,
    /// That it is gone.
    Gone,
}

/// An instance. The fields of the published document are always there; of
/// ours, those that say something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its name, unique in the project.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: InstanceKind,
    /// How it is.
    pub status: InstanceState,
    /// The image.
    pub uri: String,
    /// `KEY=VALUE`. Who may only look sees `KEY=***`.
    pub environment: Vec<String>,
    /// What it may use, and what it uses.
    pub resources: Claim,
    /// Processes and threads that it may have at once; 4096 where not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// A port of the node that leads to one of the instance.
    pub ports: Vec<String>,
    /// Whose it is.
    pub project: String,
    /// Why it is as it is, in words.
    #[serde(default)]
    pub description: String,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_id: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// How it last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What its health check says, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Grows with each change of what it is asked to be.
    pub generation: u64,
    /// Who made it.
    #[serde(default)]
    pub owner: String,
    /// When it was made.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When its status last changed.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
    /// For people, selectors and affinities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it asks of its place.
    #[serde(default)]
    pub placement: PlacementRules,
    /// Instead of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Instead of the image's command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Instead of the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Instead of the image's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// What is mounted into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Secrets that it is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether an init runs as PID 1, or its own program. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// How it is found out whether it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthSpec>,
    /// What happens when it ends by itself.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// Between SIGTERM and SIGKILL; 10 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace_seconds: Option<u32>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security: SecuritySpec,
    /// For cloud-init, in a virtual machine. Who may only look sees `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
