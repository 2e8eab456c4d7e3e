//! Backups: all volumes and Strata's own state at one point in time, sent to
//! the repository, verified, kept as long as the rules say, restored.
//!
//! In the repository a backup is a plain tree that any restic client reads:
//!
//! ```text
//! /volumes/NAME/…     each volume
//! /state/records      every record of the control plane, as `store export`
//! /state/audit/…      the audit log
//! /state/ca/…         the CA
//! /state/tokens.json  tokens, hashed
//! ```

mod create;
mod prune;
mod restore;
mod service;
mod state;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use strata_backup::{BackupError, Progress, Repository, Status};
use strata_storage::StoragePool;
use strata_store::{Store, StoreError, Transaction};
use strata_types::backup::Retention;
use strata_types::{Error, Result};
use strata_workflow::{Claim, Kind, StepContext, StepError};

pub use create::{BackupInput, CreateBackup};
pub use prune::{PruneBackups, PruneInput};
pub use restore::{RestoreBackup, RestoreInput};
pub use verify::{VerifyBackup, VerifyInput};

use super::storage::{Storage, bytes};
use crate::operations::step_failed;

/// Where backups go and what is in them. Cheap to clone.
#[derive(Clone)]
pub struct Backups {
    /// The pool, whose volumes are saved.
    pub storage: Storage,
    /// The records, which are saved.
    pub store: Arc<dyn Store>,
    /// The same as its engine has it, which is what is saved: sealed.
    pub engine: Arc<dyn Store>,
    /// Where they go; none where this server makes none.
    pub target: Option<BackupTarget>,
    /// Refuses a volume that a caller runs on.
    pub resting: VolumeUseCheck,
}

/// Refuses a volume that a caller runs on.
pub type VolumeUseCheck = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// The pool whose volumes are to be in every backup: with several servers, the
/// leader need not be the server that has it.
pub(crate) const POOL: &str = "storage-pool";

#[derive(serde::Serialize, serde::Deserialize)]
struct KnownPool {
    id: String,
    host: String,
}

/// Where backups go.
#[derive(Clone)]
pub struct BackupTarget {
    pub repository: Repository,
    /// The data directory, from which the CA and the tokens are saved.
    pub data_dir: PathBuf,
    /// The store key, which is saved with the records that it opens.
    pub key_file: PathBuf,
    /// This machine's name, which backups are known by.
    pub host: String,
    /// What is kept by default.
    pub keep: Retention,
    /// At most so many bytes a second, by default.
    pub bytes_per_second: Option<u64>,
}

impl Backups {
    /// The place, where there is one.
    pub fn target(&self) -> Result<&BackupTarget> {
        self.target.as_ref().ok_or_else(|| {
            Error::wrong_state("this server makes no backups")
                .with_hint("use the server that has the pool, or see [backup] in the configuration")
        })
    }

    /// The pool, which must be the one that was backed up before.
    async fn pool(&self) -> Result<Option<StoragePool>, StepError> {
        let target = self.step_target()?;
        let pool = self.storage.existing().await.map_err(step_failed)?;
        let found = self.store.get(POOL).await.map_err(StepError::transient)?;
        let known = found.map(|entry| serde_json::from_slice::<KnownPool>(&entry.value));
        let known = known.transpose().map_err(StepError::permanent)?;
        let own = pool.as_ref().map(StoragePool::id);
        match (&known, own) {
            (Some(known), own) if own != Some(&known.id) => {
                return Err(StepError::permanent(format!(
                    "the pool is on the server on {}, and this one, on {}, leads: a backup from \
                     here would be without its volumes",
                    known.host, target.host
                )));
            }
            (None, Some(id)) => {
                let known = KnownPool {
                    id: id.to_owned(),
                    host: target.host.clone(),
                };
                let text = serde_json::to_vec(&known).map_err(StepError::permanent)?;
                let put = Transaction::new().if_absent(POOL).put(POOL, text);
                match self.store.commit(put).await {
                    Ok(_) | Err(StoreError::Conflict { .. }) => {}
                    Err(error) => return Err(StepError::transient(error)),
                }
            }
            _ => {}
        }
        Ok(pool)
    }

    fn step_target(&self) -> Result<&BackupTarget, StepError> {
        self.target().map_err(step_failed)
    }
}

/// As long as a large pool over a slow line may take.
const STEP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(14 * 24 * 3600);

/// One thing at a time in the repository: what a backup needs must not be
/// pruned meanwhile.
fn claims() -> Vec<Claim> {
    vec![Claim::exclusive("backup")]
}

/// Something with the repository failed.
fn failed(error: BackupError) -> StepError {
    match error {
        BackupError::Cancelled => StepError::Cancelled,
        other => step_failed(other.into()),
    }
}

/// Reports a step how the repository gets on.
struct ProgressReporter<K: Kind>(StepContext<K>);

impl<K: Kind> Progress for ProgressReporter<K> {
    fn report(&self, status: &Status) {
        let mut text = status.phase.to_string();
        if status.bytes > 0 || status.files > 0 {
            text += &format!(": {} files, {}", status.files, bytes(status.bytes));
        }
        let total = status.bytes_total.filter(|total| *total > 0);
        if let Some(total) = total {
            text += &format!(" of {}", bytes(total.max(status.bytes)));
        }
        if let Some(rate) = status.rate {
            text += &format!(", {}/s", bytes(rate));
        }
        if let Some(left) = status.remaining {
            text += &format!(", {} s left", left.as_secs());
        }
        match total {
            Some(total) => {
                let fraction = status.bytes as f64 / total as f64;
                self.0.progress_to(fraction, text);
            }
            None => self.0.progress(text),
        }
    }
}

fn progress_reporter<K: Kind>(ctx: &StepContext<K>) -> Arc<dyn Progress> {
    Arc::new(ProgressReporter(ctx.clone()))
}

/// What an operation makes in the pool is named after it.
fn tag<K: Kind>(ctx: &StepContext<K>) -> String {
    format!("op-{}", ctx.operation())
}
