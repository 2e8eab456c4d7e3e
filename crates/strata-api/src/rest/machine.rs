//! Machines of the inventory, hypervisors and the autoscaler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::machine::{
    Capability, MachineFailure, MachinePhase, MachineSpec, PowerState, ProviderKind,
};

/// A machine of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// ID; also the name of its node.
    pub id: String,
    /// Provider of the machine.
    pub provider: ProviderKind,
    /// ID of the machine at the provider.
    pub handle: String,
    /// URL of its management interface.
    #[serde(default)]
    pub address: String,
    /// Name of the credentials for its management interface.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credentials: String,
    /// CPU threads: measured, or as declared if it was never up.
    pub cpu: u32,
    /// Memory in MB: measured, or as declared if it was never up.
    pub ram: u64,
    /// Capabilities found on it.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Phase.
    pub phase: MachinePhase,
    /// Actions available now: `AVAILABLE_TO_CREATE`, `AVAILABLE_TO_DESTROY` or
    /// `UNKNOWN`, as in the published document.
    pub state: String,
    /// Reason for the state and what to do, for people.
    #[serde(default)]
    pub message: String,
    /// The last phase that failed, until a phase succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<MachineFailure>,
    /// Power state last observed.
    #[serde(default)]
    pub power: PowerState,
    /// Address of its node, once it is up.
    #[serde(default)]
    pub node_address: String,
    /// Number of instances on it.
    #[serde(default)]
    pub instances: usize,
    /// ID of the running operation on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Time of registration.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time of the last change of phase.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
}

/// A machine to add to the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewMachine {
    /// ID: a DNS label.
    pub id: String,
    /// Specification.
    #[serde(flatten)]
    pub spec: MachineSpec,
}

/// A request to switch the power of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PowerRequest {
    /// The action.
    pub power: PowerAction,
    /// Also if it hosts instances.
    #[serde(default)]
    pub force: bool,
}

/// A power action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PowerAction {
    /// Power on.
    On,
    /// Power off.
    Off,
    /// Power cycle.
    Cycle,
}

/// Options of draining a hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HypervisorDrain {
    /// Destroy it once it is drained.
    pub destroy: bool,
}

/// Settings of the autoscaler: the free capacity to keep over all hypervisors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Autoscaling {
    /// Whether hypervisors are created and drained automatically.
    pub enabled: bool,
    /// Free CPU to keep, in millicores.
    pub cpu: u64,
    /// Free memory to keep, in MB.
    pub memory: u64,
    /// Free GPUs to keep.
    pub gpu: u32,
    /// Minimum number of hypervisors.
    pub least: u32,
    /// Maximum number of hypervisors; 0 for all machines.
    pub most: u32,
}

/// What the autoscaler would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoscalePlan {
    /// The settings.
    pub settings: Autoscaling,
    /// Capacity that is free and not about to be removed.
    pub free: Headroom,
    /// Resources requested by unschedulable instances.
    pub waiting: Headroom,
    /// Machines that would be created as hypervisors, and why.
    pub create: Vec<AutoscaleStep>,
    /// Hypervisors that would be drained and destroyed, and why.
    pub destroy: Vec<AutoscaleStep>,
    /// Why nothing more would be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An amount of capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Headroom {
    /// CPU in millicores.
    pub cpu: u64,
    /// Memory in MB.
    pub memory: u64,
    /// Number of GPUs.
    pub gpu: u32,
}

/// One machine that the autoscaler would create or destroy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoscaleStep {
    /// Machine ID.
    pub machine: String,
    /// Reason.
    pub why: String,
}
