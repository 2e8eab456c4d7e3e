//! Machines of the inventory and the hypervisors they become.

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
    /// Its id, and the name of its node.
    pub id: String,
    /// Who brings it up.
    pub provider: ProviderKind,
    /// What the provider calls it.
    pub handle: String,
    /// Where its management is reached.
    #[serde(default)]
    pub address: String,
    /// The name of the credentials it is reached with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credentials: String,
    /// Threads: measured, or as it was added while it was never up.
    pub cpu: u32,
    /// MB: measured, or as it was added while it was never up.
    pub ram: u64,
    /// What it was found to be good for.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// What people say of it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where it stands in its life.
    pub phase: MachinePhase,
    /// What can be done with it now: `AVAILABLE_TO_CREATE`,
    /// `AVAILABLE_TO_DESTROY` or `UNKNOWN`, as the published document says.
    pub state: String,
    /// In words: why it is so, and what to do.
    #[serde(default)]
    pub message: String,
    /// The last phase that failed, until one works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<MachineFailure>,
    /// Whether it is on, as was last seen.
    #[serde(default)]
    pub power: PowerState,
    /// Where its node is reached by others, once it is up.
    #[serde(default)]
    pub node_address: String,
    /// How many instances are on it.
    #[serde(default)]
    pub instances: usize,
    /// The operation that is at work on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// When it was added.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When its phase last changed.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
}

/// A machine that is added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NewMachine {
    /// Its id: a DNS label.
    pub id: String,
    /// What is said of it.
    #[serde(flatten)]
    pub spec: MachineSpec,
}

/// Switches a machine by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PowerRequest {
    /// What to do.
    pub power: PowerAction,
    /// Also when it hosts instances.
    #[serde(default)]
    pub force: bool,
}

/// What to do with the power of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PowerAction {
    /// Switch it on.
    On,
    /// Switch it off.
    Off,
    /// Off and on again.
    Cycle,
}

/// How a hypervisor is emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HypervisorDrain {
    /// It is destroyed when it is empty.
    pub destroy: bool,
}

/// How much room is kept free over all hypervisors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Autoscaling {
    /// Whether hypervisors are created and drained to keep it.
    pub enabled: bool,
    /// Thousandths of a core that are to be free.
    pub cpu: u64,
    /// MB that are to be free.
    pub memory: u64,
    /// GPUs that are to be free.
    pub gpu: u32,
    /// At least so many hypervisors stay up.
    pub least: u32,
    /// At most so many are up; 0 for as many as there are machines.
    pub most: u32,
}

/// What the autoscaler would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoscalePlan {
    /// What it goes by.
    pub settings: Autoscaling,
    /// What is free now, and not about to go.
    pub free: Headroom,
    /// What waits for room.
    pub waiting: Headroom,
    /// Machines that would be brought up, and why.
    pub create: Vec<AutoscaleStep>,
    /// Hypervisors that would be emptied and destroyed, and why.
    pub destroy: Vec<AutoscaleStep>,
    /// Why nothing, or no more, would be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Headroom {
    /// Thousandths of a core.
    pub cpu: u64,
    /// MB.
    pub memory: u64,
    /// GPUs.
    pub gpu: u32,
}

/// One machine that the autoscaler would bring up or down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoscaleStep {
    /// Which.
    pub machine: String,
    /// Why.
    pub why: String,
}
