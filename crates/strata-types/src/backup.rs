//! Backups, retention rules, schedules and restores.

use serde::{Deserialize, Serialize};

/// One backup in the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// ID of its snapshot in the repository.
    pub id: String,
    /// Time of the snapshot, in Unix milliseconds.
    pub taken_at_ms: i64,
    /// Host that created it.
    pub host: String,
    /// ID of the operation that created it, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Volumes in the backup.
    pub volumes: Vec<String>,
    /// Whether the state of the control plane is included.
    pub has_state: bool,
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Bytes added to the repository, before compression.
    pub new_bytes: u64,
    /// Bytes added to the repository, after compression.
    pub stored_bytes: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// Whether its snapshot in the repository is damaged. Nothing but the ID is
    /// known of it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// Retention rules. A backup is kept if any rule keeps it. Without any rule
/// every backup is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// Number of latest backups to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Number of days of which the latest backup is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<u32>,
    /// Number of weeks, from Monday, of which the latest backup is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly: Option<u32>,
    /// Number of months of which the latest backup is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly: Option<u32>,
}

impl Retention {
    /// Whether it keeps everything.
    pub fn keeps_all(&self) -> bool {
        *self == Self::default()
    }
}

/// A backup schedule and its retention rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupSchedule {
    /// Name.
    pub name: String,
    /// Cron expression in UTC, e.g. `30 2 * * *`.
    pub when: String,
    /// Retention rules applied after each backup.
    #[serde(default)]
    pub keep: Retention,
    /// Whether the schedule is suspended.
    #[serde(default)]
    pub paused: bool,
    /// Time of the last backup, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at_ms: Option<i64>,
    /// Time of the next backup, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at_ms: Option<i64>,
}

/// What to restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RestoreRequest {
    /// Volume to restore. Default: all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume: String,
    /// File or directory of the volume to restore, relative to its root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Name of the restored volume. Default: the original name. An existing
    /// volume is replaced only with `replace`.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty")]
    pub as_name: String,
    /// Replace an existing volume; its contents are kept as a snapshot.
    pub replace: bool,
}
