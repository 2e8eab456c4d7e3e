//! The storage pool as it is told: devices, room, volumes, and the plans to
//! make it larger or smaller.

use serde::{Deserialize, Serialize};

/// How often everything is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Once: a device that breaks takes data with it.
    #[default]
    Single,
    /// Twice, on two devices: any one may break.
    Mirrored,
}

impl Profile {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Mirrored => "mirrored",
        }
    }
}

/// What a device is to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviceState {
    /// Data is on it.
    Online,
    /// It waits to be used.
    Spare,
    /// Its data is being moved away.
    Leaving,
    /// It is in use and answers with errors.
    Failing,
    /// The pool expects it and it is not there.
    Missing,
}

impl DeviceState {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Spare => "SPARE",
            Self::Leaving => "LEAVING",
            Self::Failing => "FAILING",
            Self::Missing => "MISSING",
        }
    }
}

/// A device of the pool, or one that waits to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolDevice {
    /// Its name in the pool, for example `d1`.
    pub name: String,
    /// The block device or the file.
    pub path: String,
    /// What it is to the pool.
    pub state: DeviceState,
    /// Its size.
    pub bytes: u64,
    /// How much of it is given to data, in use or not.
    pub allocated_bytes: u64,
    /// Errors since they were last counted from nothing: reading, writing,
    /// and what did not match its checksum.
    pub errors: u64,
}

/// Whether the pool is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum PoolState {
    /// All is well.
    Online,
    /// It serves; a device is missing or failing, or data is not kept as often as asked.
    Degraded,
    /// It does not serve.
    Offline,
}

impl PoolState {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Offline => "OFFLINE",
        }
    }
}

/// The storage pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its id.
    pub id: String,
    /// Whether it is well.
    pub state: PoolState,
    /// Why it is not, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How often everything is kept.
    pub profile: Profile,
    /// Where it is mounted.
    pub path: String,
    /// What users can store in all; half of the devices where it is mirrored.
    pub bytes: u64,
    /// What is stored.
    pub used_bytes: u64,
    /// What can still be stored.
    pub free_bytes: u64,
    /// Its devices and its spares.
    pub devices: Vec<PoolDevice>,
    /// How many volumes are on it.
    pub volumes: usize,
    /// The last scrub, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<Scrub>,
}

/// How a scrub went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scrub {
    /// When it ended, in Unix milliseconds.
    pub ended_at_ms: i64,
    /// How much was read.
    pub bytes: u64,
    /// What was wrong and could be mended.
    pub corrected: u64,
    /// What was wrong and could not.
    pub uncorrectable: u64,
}

/// A device of the pool that is made larger or smaller while it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceResize {
    /// The device.
    pub name: String,
    /// What the pool uses of it before.
    pub from_bytes: u64,
    /// What the pool uses of it afterwards.
    pub to_bytes: u64,
}

/// What an expansion would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExpandPlan {
    /// Spares that would be used, by name.
    pub devices: Vec<String>,
    /// Devices of which more would be used than now, and spares of which only
    /// a part would be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resized: Vec<DeviceResize>,
    /// What users could store more.
    pub gained_bytes: u64,
    /// What would be moved to spread data over the new devices; none unless
    /// the profile needs it.
    pub moved_bytes: u64,
}

/// What a shrink would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShrinkPlan {
    /// Devices that would leave, by name, in the order they would.
    pub devices: Vec<String>,
    /// Devices of which less would be used than now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resized: Vec<DeviceResize>,
    /// What users could store less.
    pub lost_bytes: u64,
    /// What would be moved away from them first.
    pub moved_bytes: u64,
    /// What would be free afterwards.
    pub free_bytes: u64,
}

/// What is in a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum VolumeKind {
    /// Files, for containers.
    #[default]
    Files,
    /// One disk, for a virtual machine.
    Disk,
}

/// A volume of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolVolume {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub kind: VolumeKind,
    /// The most it may hold; nothing is said when it may fill the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// What it holds.
    pub used_bytes: u64,
    /// Of that, what nothing else shares: what its removal would free.
    pub exclusive_bytes: u64,
    /// What it was cloned from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: i64,
    /// Its snapshots, oldest first.
    #[serde(default)]
    pub snapshots: Vec<VolumeSnapshot>,
}

/// A volume as it once was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshot {
    /// Its name, unique for the volume.
    pub name: String,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
}
