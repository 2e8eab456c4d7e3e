//! Request bodies of the storage pool; the resources are in
//! `strata_types::storage`.

use serde::{Deserialize, Serialize};
use strata_types::storage::VolumeKind;

/// Expands the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExpandRequest {
    /// Minimum growth of the usable size, in bytes.
    pub min_bytes: u64,
}

/// Shrinks the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ShrinkRequest {
    /// Maximum reduction of the usable size, in bytes.
    pub max_bytes: u64,
}

/// A device to add as a spare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewDevice {
    /// A block device of the server's host. Default: a file in the data
    /// directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Size of the file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Use a device that holds data.
    pub overwrite: bool,
}

/// Replaces a failing or missing device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplaceRequest {
    /// The spare to use. Default: the smallest that is large enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with: String,
}

/// A volume to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPoolVolume {
    /// Name: a DNS label.
    pub name: String,
    /// Type of its contents.
    #[serde(default)]
    pub kind: VolumeKind,
    /// Quota in bytes. Required for a disk: it is its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Volume or `VOLUME@SNAPSHOT` to copy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}

/// A change to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolVolumePatch {
    /// Quota in bytes; 0 for no quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
}

/// A snapshot to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSnapshot {
    /// Name: a DNS label.
    pub name: String,
}
