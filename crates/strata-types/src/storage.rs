//! The storage pool: devices, capacity, volumes, and plans to expand or shrink
//! it.

use serde::{Deserialize, Serialize};

/// Redundancy of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// One copy: a failed device loses data.
    #[default]
    Single,
    /// Two copies on two devices: any one device may fail.
    Mirrored,
}

impl Profile {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Mirrored => "mirrored",
        }
    }
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviceState {
    /// In use.
    Online,
    /// Spare.
    Spare,
    /// Its data is being moved to other devices.
    Leaving,
    /// In use, with I/O errors.
    Failing,
    /// Expected by the pool and missing.
    Missing,
}

impl DeviceState {
    /// The name on the wire.
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

/// A device of the pool, or a spare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolDevice {
    /// Name in the pool, e.g. `d1`.
    pub name: String,
    /// The block device or the file.
    pub path: String,
    /// State.
    pub state: DeviceState,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes allocated on the device.
    pub allocated_bytes: u64,
    /// Read, write and checksum errors since the counter was last reset.
    pub errors: u64,
}

/// Health of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum PoolState {
    /// Healthy.
    Online,
    /// Usable; a device is missing or failing, or data has fewer copies than
    /// configured.
    Degraded,
    /// Not usable.
    Offline,
}

impl PoolState {
    /// The name on the wire.
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
    /// ID.
    pub id: String,
    /// Health.
    pub state: PoolState,
    /// Why it is degraded, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Redundancy of the pool.
    pub profile: Profile,
    /// Mount point.
    pub path: String,
    /// Usable size in bytes; half of the devices if mirrored.
    pub bytes: u64,
    /// Used bytes.
    pub used_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Devices and spares.
    pub devices: Vec<PoolDevice>,
    /// Number of volumes.
    pub volumes: usize,
    /// The last scrub, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<Scrub>,
}

/// Result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scrub {
    /// End time, in Unix milliseconds.
    pub ended_at_ms: i64,
    /// Bytes read.
    pub bytes: u64,
    /// Errors that were repaired.
    pub corrected: u64,
    /// Errors that could not be repaired.
    pub uncorrectable: u64,
}

/// An online resize of a device of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceResize {
    /// Name of the device.
    pub name: String,
    /// Bytes used by the pool before.
    pub from_bytes: u64,
    /// Bytes used by the pool afterwards.
    pub to_bytes: u64,
}

/// Plan of an expansion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExpandPlan {
    /// Names of the spares to use.
    pub devices: Vec<String>,
    /// Devices that would grow, and spares of which only a part would be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resized: Vec<DeviceResize>,
    /// Growth of the usable size, in bytes.
    pub gained_bytes: u64,
    /// Bytes to rebalance to the new devices; 0 unless the profile requires it.
    pub moved_bytes: u64,
}

/// Plan of a shrink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShrinkPlan {
    /// Names of the devices to remove, in order.
    pub devices: Vec<String>,
    /// Devices that would be reduced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resized: Vec<DeviceResize>,
    /// Reduction of the usable size, in bytes.
    pub lost_bytes: u64,
    /// Bytes to move away first.
    pub moved_bytes: u64,
    /// Free bytes afterwards.
    pub free_bytes: u64,
}

/// Type of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum VolumeKind {
    /// A directory tree, for containers.
    #[default]
    Files,
    /// A disk image, for a virtual machine.
    Disk,
}

/// A volume of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolVolume {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: VolumeKind,
    /// Quota in bytes; absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Used bytes.
    pub used_bytes: u64,
    /// Exclusive bytes: what deleting it would free.
    pub exclusive_bytes: u64,
    /// Volume or snapshot it was cloned from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// Its snapshots, oldest first.
    #[serde(default)]
    pub snapshots: Vec<VolumeSnapshot>,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshot {
    /// Name, unique in the volume.
    pub name: String,
    /// Timestamp, in Unix milliseconds.
    pub created_at_ms: i64,
}
