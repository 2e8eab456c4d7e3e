//! What a project may have, what its instances get, and what they take.

use serde::{Deserialize, Serialize};

use crate::instance::InstanceSpec;

/// Quota of a project. An amount that is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quota {
    /// CPU in millicores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub cpu: Option<i64>,
    /// Memory in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub memory: Option<i64>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub disk: Option<i64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub pids: Option<i64>,
    /// Number of instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub instances: Option<i64>,
}

/// Default resources of instances in a project. Where the project has a quota
/// and no default: 500 millicores, 256 MB of memory, 4 GB of disk, 4096
/// processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProjectDefaults {
    /// CPU in millicores; at least 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 10))]
    pub cpu: Option<i32>,
    /// Memory in MB; at least 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 5))]
    pub memory: Option<i32>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub disk: Option<i32>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304))]
    pub pids: Option<u32>,
}

impl ProjectDefaults {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Usage of the quota of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProjectUse {
    /// CPU in millicores.
    pub cpu: i64,
    /// Memory in MB.
    pub memory: i64,
    /// Disk in GB.
    pub disk: i64,
    /// Number of processes and threads.
    #[serde(default)]
    pub pids: i64,
    /// Number of instances.
    pub instances: i64,
}

impl ProjectUse {
    /// What one instance takes.
    pub fn of(spec: &InstanceSpec) -> Self {
        Self {
            cpu: spec.resources.cpu.into(),
            memory: spec.resources.memory.into(),
            disk: spec.resources.disk.into(),
            pids: spec.max_pids().into(),
            instances: 1,
        }
    }
}

impl std::ops::AddAssign for ProjectUse {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.disk += other.disk;
        self.pids += other.pids;
        self.instances += other.instances;
    }
}

impl std::ops::SubAssign for ProjectUse {
    fn sub_assign(&mut self, other: Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.disk -= other.disk;
        self.pids -= other.pids;
        self.instances -= other.instances;
    }
}
