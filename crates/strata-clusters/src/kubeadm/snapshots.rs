//! Snapshots of etcd on this server: a directory for each cluster, and for each
//! snapshot what etcd gave and a small file that says what it is, which is
//! written last.
//!
//! ```text
//! DIRECTORY/CLUSTER/1763240000000.db
//! DIRECTORY/CLUSTER/1763240000000.json
//! ```

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use strata_types::cluster::{ClusterName, KubernetesVersion};

use super::bundle_transfer::files_error;
use super::etcd::Etcd;
use crate::{DriverError, Snapshot};

/// A large etcd on a slow disk.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// What stands at the end of what etcd gives: the sum of all before.
const SUM: usize = 32;
const PRIVATE: u32 = 0o600;
/// Far longer than one takes.
const UNFINISHED_GRACE: Duration = Duration::from_secs(60 * 60);

/// The snapshots of one cluster.
pub(super) struct Snapshots(PathBuf);

impl Snapshots {
    pub(super) fn of(dir: &Path, name: &ClusterName) -> Self {
        Self(dir.join(name.as_str()))
    }

    /// All of them, the oldest first. What was not finished is not there.
    pub(super) fn list(&self) -> Result<Vec<Snapshot>, DriverError> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| files_error(&self.0, &error))?,
        };
        let mut all: Vec<Snapshot> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
            .filter(|snapshot: &Snapshot| self.file(&snapshot.id).is_file())
            .collect();
        all.sort_by_key(|snapshot| snapshot.at_ms);
        Ok(all)
    }

    /// One of them, and its file.
    pub(super) fn find(&self, id: &str) -> Result<(Snapshot, PathBuf), DriverError> {
        let found = self.list()?.into_iter().find(|snapshot| snapshot.id == id);
        let found = found.ok_or_else(|| DriverError::Missing {
            what: format!("the snapshot {id}"),
            hint: "choose one of those that are listed".into(),
        })?;
        let file = self.file(&found.id);
        Ok((found, file))
    }

    /// Takes one from etcd.
    pub(super) async fn take(
        &self,
        etcd: &Etcd,
        version: KubernetesVersion,
        reason: &str,
    ) -> Result<Snapshot, DriverError> {
        fs::create_dir_all(&self.0).map_err(|error| files_error(&self.0, &error))?;
        self.sweep(SystemTime::now());
        let at_ms = Timestamp::now().as_millisecond();
        let id = at_ms.to_string();
        let part = self.0.join(format!("{id}.part"));
        let taken = tokio::time::timeout(SCRIPT_TIMEOUT, receive(etcd, &part)).await;
        let late = || DriverError::Silent(format!("etcd: no snapshot within {SCRIPT_TIMEOUT:?}"));
        let size = match taken.unwrap_or_else(|_| Err(late())) {
            Ok(size) => size,
            Err(error) => {
                let _ = fs::remove_file(&part);
                return Err(error);
            }
        };
        let file = self.file(&id);
        fs::rename(&part, &file).map_err(|error| files_error(&file, &error))?;
        let snapshot = Snapshot {
            id,
            at_ms,
            size,
            version,
            reason: reason.to_owned(),
        };
        self.describe(&snapshot)?;
        Ok(snapshot)
    }

    /// Removes what was never finished: its writer was killed meanwhile. What
    /// is young may be in the making.
    fn sweep(&self, now: SystemTime) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let unfinished = match path.extension().and_then(|it| it.to_str()) {
                Some("part") => true,
                Some("db") => !path.with_extension("json").exists(),
                _ => false,
            };
            let written = fs::metadata(&path).and_then(|it| it.modified());
            let age = written.ok().and_then(|then| now.duration_since(then).ok());
            if !unfinished || age.is_none_or(|age| age < UNFINISHED_GRACE) {
                continue;
            }
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "unfinished snapshot not deleted");
            }
        }
    }

    /// Removes the oldest, until so many are left.
    pub(super) fn keep(&self, most: usize) -> Result<(), DriverError> {
        let all = self.list()?;
        let too_many = all.len().saturating_sub(most.max(1));
        for snapshot in all.iter().take(too_many) {
            // The description goes first: half of a snapshot is none.
            for path in [self.description(&snapshot.id), self.file(&snapshot.id)] {
                fs::remove_file(&path).map_err(|error| files_error(&path, &error))?;
            }
        }
        Ok(())
    }

    /// Removes all of them.
    pub(super) fn clear(&self) -> Result<(), DriverError> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(files_error(&self.0, &error))
            }
            _ => Ok(()),
        }
    }

    fn describe(&self, snapshot: &Snapshot) -> Result<(), DriverError> {
        let path = self.description(&snapshot.id);
        let text = serde_json::to_vec_pretty(snapshot).unwrap_or_default();
        let write = || {
            let mut file = create(&path)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(|error| files_error(&path, &error))
    }

    fn description(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }

    fn file(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.db"))
    }
}

/// Writes what comes, and checks whether it is whole.
async fn receive(etcd: &Etcd, path: &Path) -> Result<u64, DriverError> {
    let failed = |error: std::io::Error| files_error(path, &error);
    let mut stream = etcd.snapshot().await?;
    let mut file = create(path).map_err(failed)?;
    let mut check = Check::default();
    let mut size = 0;
    loop {
        let piece = stream.message().await;
        let piece = piece.map_err(|status| {
            DriverError::Silent(format!(
                "etcd: the snapshot broke off: {}",
                status.message()
            ))
        })?;
        let Some(piece) = piece else { break };
        // In pieces of 32 KiB: the disk takes them as fast as they come.
        file.write_all(&piece.blob).map_err(failed)?;
        check.add(&piece.blob);
        size += piece.blob.len() as u64;
    }
    if !check.holds() {
        let why = "etcd: the snapshot is not whole: its sum is another";
        return Err(DriverError::Silent(why.into()));
    }
    file.sync_all().map_err(failed)?;
    Ok(size)
}

/// The sum of all but the last bytes, which are the sum.
#[derive(Default)]
struct Check {
    sum: Sha256,
    last: Vec<u8>,
}

impl Check {
    fn add(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        let known = self.last.len().saturating_sub(SUM);
        self.sum.update(&self.last[..known]);
        self.last.drain(..known);
    }

    fn holds(self) -> bool {
        self.last.len() == SUM && self.sum.finalize()[..] == self.last[..]
    }
}

fn create(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(PRIVATE);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_checksum_is_verified() {
        let data = vec![7_u8; 1000];
        let mut whole = data.clone();
        whole.extend_from_slice(&Sha256::digest(&data));
        for piece in [1, 31, 32, 33, 500, 2000] {
            let mut check = Check::default();
            whole.chunks(piece).for_each(|bytes| check.add(bytes));
            assert!(check.holds(), "in pieces of {piece}");
        }
        let mut check = Check::default();
        check.add(&whole[..whole.len() - 1]);
        assert!(!check.holds());
        assert!(!Check::default().holds());
    }

    #[test]
    fn unfinished_snapshot_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let name: ClusterName = "blue".parse().unwrap();
        let snapshots = Snapshots::of(dir.path(), &name);
        assert_eq!(snapshots.list().unwrap(), []);
        fs::create_dir_all(&snapshots.0).unwrap();
        let of = |at_ms: i64| Snapshot {
            id: at_ms.to_string(),
            at_ms,
            size: 3,
            version: KubernetesVersion::new(1, 34, 4),
            reason: "asked".into(),
        };
        for at_ms in [30, 4, 5] {
            snapshots.describe(&of(at_ms)).unwrap();
        }
        for id in ["30", "4", "6"] {
            fs::write(snapshots.file(id), "abc").unwrap();
        }
        assert_eq!(snapshots.list().unwrap(), [of(4), of(30)]);
        assert_eq!(snapshots.find("30").unwrap().0, of(30));
        assert!(snapshots.find("6").is_err());
        snapshots.clear().unwrap();
        snapshots.clear().unwrap();
        assert_eq!(snapshots.list().unwrap(), []);
    }

    #[test]
    fn unfinished_snapshot_is_deleted_after_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let name: ClusterName = "blue".parse().unwrap();
        let snapshots = Snapshots::of(dir.path(), &name);
        fs::create_dir_all(&snapshots.0).unwrap();
        for file in ["1.part", "2.db", "3.db", "3.json"] {
            fs::write(snapshots.0.join(file), "abc").unwrap();
        }
        let left = || {
            let entries = fs::read_dir(&snapshots.0).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|it| it.file_name()).collect();
            names.sort();
            names
        };
        snapshots.sweep(SystemTime::now());
        assert_eq!(left().len(), 4, "they are young");
        snapshots.sweep(SystemTime::now() + UNFINISHED_GRACE + Duration::from_secs(60));
        assert_eq!(left(), ["3.db", "3.json"]);
    }

    #[test]
    fn oldest_snapshots_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let name: ClusterName = "blue".parse().unwrap();
        let snapshots = Snapshots::of(dir.path(), &name);
        fs::create_dir_all(&snapshots.0).unwrap();
        for at_ms in [3, 1, 2] {
            let snapshot = Snapshot {
                id: format!("{at_ms}"),
                at_ms,
                size: 3,
                version: KubernetesVersion::new(1, 34, 4),
                reason: "asked".into(),
            };
            fs::write(snapshots.file(&snapshot.id), "abc").unwrap();
            snapshots.describe(&snapshot).unwrap();
        }
        snapshots.keep(2).unwrap();
        let left: Vec<_> = snapshots
            .list()
            .unwrap()
            .into_iter()
            .map(|it| it.id)
            .collect();
        assert_eq!(left, ["2", "3"]);
        assert_eq!(fs::read_dir(&snapshots.0).unwrap().count(), 4);
    }
}
