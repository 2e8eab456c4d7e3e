//! What a client asks of the storage pool. What it is told is in
//! `strata_types::storage`.

use serde::{Deserialize, Serialize};
use strata_types::storage::VolumeKind;

/// Makes the pool larger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExpandRequest {
    /// By at least so much, for users.
    pub min_bytes: u64,
}

/// Makes the pool smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ShrinkRequest {
    /// By at most so much, for users.
    pub max_bytes: u64,
}

/// A device that is added as a spare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewDevice {
    /// A block device of the server's machine; a file under the data folder
    /// is made when nothing is said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// How large the file is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// A device that has something on it is taken all the same.
    pub overwrite: bool,
}

/// Puts another device in the place of one that fails or is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplaceRequest {
    /// The spare that takes its place; the smallest that is large enough
    /// unless told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with: String,
}

/// A volume that is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPoolVolume {
    /// Its name: a DNS label.
    pub name: String,
    /// What is in it.
    #[serde(default)]
    pub kind: VolumeKind,
    /// The most it may hold. A disk needs one: it is its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Another volume that it begins as a copy of, or `VOLUME@SNAPSHOT`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}

/// A change to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolVolumePatch {
    /// The most it may hold; 0 for as much as there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
}

/// A snapshot that is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSnapshot {
    /// Its name: a DNS label.
    pub name: String,
}
