//! A world of its own for each test: a repository, sources, and the program
//! that the format comes from.
#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod look;
pub(crate) mod make;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use strata_backup::{
    BackupRequest, Location, Progress, Repository, RepositoryConfig, RestoreOptions, Restored,
    Secret, Silent, Source, Status, Verified,
};
use strata_types::backup::Backup;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) struct World {
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("strata-backup-")
            .tempdir()
            .expect("a temporary directory");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn repository(&self) -> Repository {
        repository(&self.path("repo"), PASSWORD)
    }

    /// Runs restic on the repository.
    pub(crate) fn restic(&self, args: &[&str]) -> Output {
        Command::new("restic")
            .args(["--no-cache", "--quiet", "--repo"])
            .arg(self.path("repo"))
            .args(args)
            .env("RESTIC_PASSWORD", PASSWORD)
            .output()
            .expect("restic, from the Debian package of that name")
    }

    #[track_caller]
    pub(crate) fn restic_ok(&self, args: &[&str]) -> String {
        let output = self.restic(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "restic {args:?}: {text}{errors}");
        text
    }

    /// The repository is whole, according to the program of its format.
    #[track_caller]
    pub(crate) fn check(&self) {
        self.restic_ok(&["check", "--read-data", "--no-lock"]);
    }
}

pub(crate) fn repository(path: &Path, password: &str) -> Repository {
    Repository::new(RepositoryConfig {
        location: Location::Directory(path.to_owned()),
        password: Secret::new(password),
        compression: 3,
        cache: None,
    })
}

/// A backup of one directory as the volume `web`.
pub(crate) fn ask(operation: &str, source: &Path, taken_at_ms: i64) -> BackupRequest {
    BackupRequest {
        sources: vec![Source {
            path: source.to_owned(),
            at: "/volumes/web".to_owned(),
        }],
        taken_at_ms,
        host: "test".to_owned(),
        operation: operation.to_owned(),
        volumes: vec!["web".to_owned()],
        ..BackupRequest::default()
    }
}

pub(crate) async fn save(repository: &Repository, ask: BackupRequest) -> Backup {
    save_watched(repository, ask, Arc::new(Silent)).await
}

pub(crate) async fn save_watched(
    repository: &Repository,
    ask: BackupRequest,
    progress: Arc<dyn Progress>,
) -> Backup {
    let cancel = CancellationToken::new();
    repository
        .backup(ask, progress, cancel)
        .await
        .expect("a backup")
}

pub(crate) async fn restore(repository: &Repository, id: &str, from: &str, to: &Path) -> Restored {
    let ask = RestoreOptions {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let cancel = CancellationToken::new();
    let restored = repository.restore(id, ask, Arc::new(Silent), cancel).await;
    restored.expect("a restore")
}

pub(crate) async fn verify(repository: &Repository, id: &str, percent: u8) -> Verified {
    let cancel = CancellationToken::new();
    let verified = repository
        .verify(id, percent, Arc::new(Silent), cancel)
        .await;
    verified.expect("a look")
}

/// How large a directory's files are together.
pub(crate) fn weight(dir: &Path) -> u64 {
    look::walk(dir)
        .iter()
        .filter_map(|path| path.symlink_metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum()
}

/// Keeps the last status.
#[derive(Default)]
pub(crate) struct Watch(pub(crate) Mutex<Vec<Status>>);

impl Watch {
    pub(crate) fn last(&self) -> Status {
        let all = self.0.lock().expect("no panic");
        *all.last().expect("a report")
    }
}

impl Progress for Watch {
    fn report(&self, status: &Status) {
        self.0.lock().expect("no panic").push(*status);
    }
}
