//! The repository as the rest of the program uses it.

use std::sync::Arc;

use strata_types::backup::{Backup, Retention};
use tokio_util::sync::CancellationToken;

use crate::backup::{self, BackupRequest};
use crate::config::RepositoryConfig;
use crate::error::{BackupError, Result};
use crate::gate::Gate;
use crate::key_cache::KeyCache;
use crate::progress::{Progress, Reporter, Silent};
use crate::prune::{self, Pruned};
use crate::repair::{self, Repaired};
use crate::restore::{self, RestoreOptions, Restored};
use crate::retention::PrunePlan;
use crate::session::Session;
use crate::verified_packs::RepairScope;
use crate::verify::{self, Verified};
use crate::{snapshot, store};

/// What a repository calls itself, wherever it lies.
pub type RepositoryId = String;

/// A repository of backups. Cheap to clone; nothing is open between calls.
///
/// Every call may be dropped: what it had begun then stops by itself, and
/// leaves the repository whole.
#[derive(Clone, Debug)]
pub struct Repository {
    config: Arc<RepositoryConfig>,
    key_cache: Arc<KeyCache>,
}

impl Repository {
    /// Knows where a repository is. Nothing is looked at yet.
    pub fn new(config: RepositoryConfig) -> Self {
        Self {
            config: Arc::new(config),
            key_cache: Arc::default(),
        }
    }

    /// Where it is, for people.
    pub fn location(&self) -> String {
        self.config.location.to_string()
    }

    /// Opens the repository, or makes one where nothing is. Never touches
    /// what is there and is not a repository.
    pub async fn ensure(&self) -> Result<RepositoryId> {
        self.quietly("opening the repository", |session| {
            let repository = session.open_or_make()?;
            Ok(repository.config().id.to_hex().to_string())
        })
        .await
    }

    /// Makes a backup; the repository is made when there is none. What has
    /// not changed since the last one is neither read nor stored again. A
    /// second call for the same operation finds what the first has made.
    pub async fn backup(
        &self,
        ask: BackupRequest,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> Result<Backup> {
        let pace = ask.bytes_per_second;
        self.run("saving", progress, cancel, pace, move |session| {
            backup::run(session, &ask)
        })
        .await
    }

    /// All backups, the newest first; also those that other clients made, and,
    /// last, those that cannot be read.
    pub async fn list(&self) -> Result<Vec<Backup>> {
        self.quietly("listing backups", |session| {
            let snapshots = session.snapshots(&session.open()?)?;
            let mut backups: Vec<_> = snapshots.readable.iter().map(snapshot::backup).collect();
            let unreadable = snapshots.unreadable.iter();
            backups.extend(unreadable.map(|id| snapshot::unreadable(id)));
            backups.sort_by(|a, b| (b.taken_at_ms, &a.id).cmp(&(a.taken_at_ms, &b.id)));
            Ok(backups)
        })
        .await
    }

    /// One backup, by its id, the beginning of it, or `latest`: the latest
    /// of all hosts that use the repository.
    pub async fn get(&self, id: &str) -> Result<Backup> {
        let id = id.to_owned();
        self.quietly("looking for a backup", move |session| {
            let snapshots = session.snapshots(&session.open()?)?;
            snapshot::find(snapshots, &id).map(|found| snapshot::backup(&found))
        })
        .await
    }

    /// Brings back a file or directory of a backup, with owners, modes, times,
    /// extended attributes and links. Never writes outside of the target.
    pub async fn restore(
        &self,
        id: &str,
        ask: RestoreOptions,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> Result<Restored> {
        let id = id.to_owned();
        self.run("restoring", progress, cancel, None, move |session| {
            restore::run(session, &id, &ask)
        })
        .await
    }

    /// How much room a restore of this file or directory takes at least.
    pub async fn measure(&self, id: &str, from: &str) -> Result<u64> {
        let (id, from) = (id.to_owned(), from.to_owned());
        self.quietly("measuring", move |session| {
            restore::measure(session, &id, &from)
        })
        .await
    }

    /// Checks the repository's account of a backup, and reads back so many
    /// percent of its files, chosen at random. Damage is an answer, not an
    /// error.
    pub async fn verify(
        &self,
        id: &str,
        percent: u8,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> Result<Verified> {
        let id = id.to_owned();
        self.run("verifying", progress, cancel, None, move |session| {
            verify::run(session, &id, percent)
        })
        .await
    }

    /// Looks for packs that are damaged, and makes the repository work without
    /// them: a backup that comes after it stores again what was in them. Fails
    /// with [`BackupError::Locked`] while another process is at work and there
    /// is something to repair.
    pub async fn repair(
        &self,
        scope: RepairScope,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> Result<Repaired> {
        self.run("repairing", progress, cancel, None, move |session| {
            repair::run(session, scope)
        })
        .await
    }

    /// What a prune would keep and delete. The rules are for each host's
    /// backups on their own.
    pub async fn plan_prune(&self, keep: &Retention) -> Result<PrunePlan> {
        let keep = *keep;
        self.quietly("planning a prune", move |session| {
            prune::plan(session, &keep)
        })
        .await
    }

    /// Deletes backups and frees what only they had. Fails with
    /// [`BackupError::Locked`] while another process is at work.
    pub async fn prune(
        &self,
        keep: &Retention,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> Result<Pruned> {
        let keep = *keep;
        self.run("pruning", progress, cancel, None, move |session| {
            prune::run(session, &keep)
        })
        .await
    }

    async fn quietly<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = CancellationToken::new();
        self.run(doing, Arc::new(Silent), cancel, None, work).await
    }

    /// Runs something that blocks. It is cancelled when no caller waits for it
    /// any more.
    async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
        bytes_per_second: Option<u64>,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = cancel.child_token();
        let _dropped = cancel.clone().drop_guard();
        let config = self.config.clone();
        let store = store::open(&config.location)?;
        let session = Session::new(
            config,
            self.key_cache.clone(),
            store,
            Gate::new(cancel, bytes_per_second),
            Reporter::new(progress),
        );
        let work = tokio::task::spawn_blocking(move || work(&session));
        work.await.map_err(|_| BackupError::Panicked { doing })?
    }
}
