//! Backups as they are told: what was saved, how long it is kept, when the
//! next is made.

use serde::{Deserialize, Serialize};

/// One backup in the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// The id of its snapshot in the repository, as every client of the
    /// repository knows it.
    pub id: String,
    /// When the state that it holds was taken, in Unix milliseconds.
    pub taken_at_ms: i64,
    /// The machine that made it.
    pub host: String,
    /// The operation that made it, where one did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// The volumes in it.
    pub volumes: Vec<String>,
    /// Whether Strata's own state is in it.
    pub has_state: bool,
    /// How many files are in it.
    pub files: u64,
    /// How large they are together.
    pub bytes: u64,
    /// How much was new to the repository, before compression.
    pub new_bytes: u64,
    /// How much that took in the repository.
    pub stored_bytes: u64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// How many backups are kept. Each rule keeps on its own; what none keeps may
/// be pruned. Without any rule everything is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// The latest so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// The latest of each of the latest so many days that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<u32>,
    /// The same for weeks, which begin on Monday.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly: Option<u32>,
    /// The same for months.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly: Option<u32>,
}

impl Retention {
    /// Whether it keeps everything.
    pub fn keeps_all(&self) -> bool {
        *self == Self::default()
    }
}

/// When backups are made, and how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupSchedule {
    /// Its name.
    pub name: String,
    /// When, as in a crontab, in UTC: `30 2 * * *`.
    pub when: String,
    /// What is kept after each.
    #[serde(default)]
    pub keep: Retention,
    /// It rests.
    #[serde(default)]
    pub paused: bool,
    /// When it made one last, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at_ms: Option<i64>,
    /// When the next is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at_ms: Option<i64>,
}

/// What is to be brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RestoreRequest {
    /// Only this volume; all of them unless told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume: String,
    /// Only this file or folder of the volume, as a path from its root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The name of the volume it is restored as; its own unless told. One
    /// that is there is replaced only with `replace`.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty")]
    pub as_name: String,
    /// What is there is replaced; it is kept as a snapshot.
    pub replace: bool,
}
