//! A backup as described by its snapshot in the repository.
//!
//! What restic has no field for is recorded in tags, which other clients show
//! and keep: `strata`, `operation=<id>`, `volume=<name>`, `state`. The figures
//! are in the summary that restic and its kin write too.

use rustic_core::repofile::SnapshotFile;
use strata_types::backup::Backup;

use crate::error::{BackupError, Result};

/// Marks it as made by us.
const OURS: &str = "strata";
const STATE: &str = "state";
const OPERATION: &str = "operation=";
const VOLUME: &str = "volume=";

/// What a backup holds and which program made it.
pub(crate) struct BackupInfo<'a> {
    pub(crate) operation: &'a str,
    pub(crate) volumes: &'a [String],
    pub(crate) has_state: bool,
}

impl BackupInfo<'_> {
    /// The tags that record it.
    pub(crate) fn tags(&self) -> Vec<String> {
        let mut tags = vec![OURS.to_owned()];
        if !self.operation.is_empty() {
            tags.push(format!("{OPERATION}{}", self.operation));
        }
        if self.has_state {
            tags.push(STATE.to_owned());
        }
        tags.extend(self.volumes.iter().map(|name| format!("{VOLUME}{name}")));
        tags
    }
}

/// Whether we made it.
pub(crate) fn is_ours(snapshot: &SnapshotFile) -> bool {
    snapshot.tags.iter().any(|tag| tag == OURS)
}

/// Whether this operation made it.
pub(crate) fn is_of(snapshot: &SnapshotFile, operation: &str) -> bool {
    let mut tags = snapshot.tags.iter();
    !operation.is_empty() && tags.any(|tag| tag.strip_prefix(OPERATION) == Some(operation))
}

/// The backup that a snapshot is.
pub(crate) fn backup(snapshot: &SnapshotFile) -> Backup {
    let tags = || snapshot.tags.iter();
    let ours = is_ours(snapshot);
    let told = |prefix: &'static str| {
        tags().filter_map(move |tag| tag.strip_prefix(prefix).filter(|_| ours))
    };
    let summary = snapshot.summary.as_ref();
    let figure = |of: fn(&rustic_core::repofile::SnapshotSummary) -> u64| summary.map_or(0, of);
    Backup {
        id: snapshot.id.to_hex().to_string(),
        taken_at_ms: snapshot.time.timestamp().as_millisecond(),
        host: snapshot.hostname.clone(),
        operation: told(OPERATION).next().unwrap_or_default().to_owned(),
        volumes: told(VOLUME).map(str::to_owned).collect(),
        has_state: ours && tags().any(|tag| tag == STATE),
        files: figure(|s| s.total_files_processed),
        bytes: figure(|s| s.total_bytes_processed),
        new_bytes: figure(|s| s.data_added),
        stored_bytes: figure(|s| s.data_added_packed),
        took_ms: summary.map_or(0, took),
        damaged: false,
    }
}

fn took(summary: &rustic_core::repofile::SnapshotSummary) -> u64 {
    let took = summary.backup_start.duration_until(&summary.backup_end);
    u64::try_from(took.as_millis()).unwrap_or_default()
}

/// A backup whose snapshot cannot be read: there is nothing but its name.
pub(crate) fn unreadable(id: &str) -> Backup {
    Backup {
        id: id.to_owned(),
        damaged: true,
        ..Backup::default()
    }
}

/// All snapshots of the repository.
pub(crate) struct Snapshots {
    pub(crate) readable: Vec<SnapshotFile>,
    /// Names of those that are damaged, or of a format that is not known.
    pub(crate) unreadable: Vec<String>,
}

impl Snapshots {
    /// All of them, where none may be missing.
    pub(crate) fn all(self) -> Result<Vec<SnapshotFile>> {
        match self.unreadable.is_empty() {
            true => Ok(self.readable),
            false => Err(unreadable_error(&self.unreadable)),
        }
    }
}

fn unreadable_error<T: AsRef<str>>(names: &[T]) -> BackupError {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    BackupError::UnreadableSnapshots {
        ids: names.join(", "),
    }
}

/// Finds the one that an id, the beginning of one, or `latest` means, which
/// is the latest of all hosts.
pub(crate) fn find(all: Snapshots, id: &str) -> Result<SnapshotFile> {
    let mut snapshots = all.readable;
    let missing = || {
        let meant = |name: &&String| id == "latest" || name.starts_with(id);
        let unreadable: Vec<&String> = all.unreadable.iter().filter(meant).collect();
        match id.is_empty() || unreadable.is_empty() {
            true => BackupError::NoBackup { id: id.to_owned() },
            false => unreadable_error(&unreadable),
        }
    };
    if id == "latest" {
        let latest = snapshots.into_iter().max_by(|a, b| a.time.cmp(&b.time));
        return latest.ok_or_else(missing);
    }
    if id.is_empty() {
        return Err(missing());
    }
    snapshots.retain(|snapshot| snapshot.id.to_hex().as_str().starts_with(id));
    if snapshots.len() > 1 {
        return Err(BackupError::Ambiguous { id: id.to_owned() });
    }
    snapshots.pop().ok_or_else(missing)
}
