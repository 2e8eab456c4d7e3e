//! What a client asks of backups. What it is told is in
//! `strata_types::backup`.

use serde::{Deserialize, Serialize};
use strata_types::backup::Retention;

/// Makes a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewBackup {
    /// At most so many bytes a second go to the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// It is not verified afterwards.
    pub skip_verify: bool,
    /// All of the repository is read first: what is damaged is stored again
    /// where the data still exists, and all of the backup is verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repair: bool,
}

/// Looks whether backups can be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// How much of it is restored and compared, in percent; 5 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
}

/// Forgets backups and frees what only they had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PruneRequest {
    /// What is kept; as configured unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Retention>,
}

/// What a prune would forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunePlan {
    /// What is kept, with the rules that keep it.
    pub keep: Vec<PruneKept>,
    /// What goes.
    pub forget: Vec<String>,
}

/// A backup that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PruneKept {
    /// Which.
    pub id: String,
    /// The rules that keep it: `last`, `daily`, `weekly`, `monthly`.
    pub because: Vec<String>,
}
