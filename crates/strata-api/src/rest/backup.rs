//! Request bodies of backups; the resources are in `strata_types::backup`.

use serde::{Deserialize, Serialize};
use strata_types::backup::Retention;

/// Creates a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewBackup {
    /// Upload limit in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Skip the verification afterwards.
    pub skip_verify: bool,
    /// Read the whole repository first, upload damaged data again where it
    /// still exists, and verify the whole backup.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repair: bool,
}

/// Verifies that a backup can be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// Share of the data that is restored and compared, in percent. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
}

/// Deletes backups and frees the data that only they refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PruneRequest {
    /// Retention rules. Default: those of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Retention>,
}

/// The backups that a prune would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunePlan {
    /// Backups that are kept, with the rules that keep them.
    pub keep: Vec<PruneKept>,
    /// IDs of the backups that would be deleted.
    pub forget: Vec<String>,
}

/// A backup that a rule keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PruneKept {
    /// ID.
    pub id: String,
    /// The rules that keep it: `last`, `daily`, `weekly`, `monthly`.
    pub because: Vec<String>,
}
