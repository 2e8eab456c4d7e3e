//! Backups of directories in a repository of the open restic format:
//! deduplicated, compressed, encrypted, and readable by other programs on
//! the day that this one is gone.
//!
//! The format and its cryptography are rustic_core's. Ours are the storage
//! below it (a directory, or an S3-compatible store), the sources above it
//! (several directories at places of our choosing in one backup), locks that
//! other clients heed, and the restore, which trusts nothing that it reads.

mod backup;
mod blobs;
mod cipher;
mod config;
mod damaged_files;
mod descend;
mod engine_backend;
mod error;
mod gate;
mod key_cache;
mod lock;
mod progress;
mod prune;
mod rate_limiter;
mod repair;
mod repository;
mod restore;
mod retention;
mod session;
mod snapshot;
mod source;
mod store;
mod tree;
mod verified_packs;
mod verify;
mod window;

pub use backup::BackupRequest;
pub use config::{Bucket, Location, RepositoryConfig};
pub use error::{BackupError, Result};
pub use progress::{Phase, Progress, Silent, Status};
pub use prune::Pruned;
pub use repair::Repaired;
pub use repository::{Repository, RepositoryId};
pub use restore::{RestoreOptions, Restored};
pub use retention::{Candidate, PrunePlan, RetainedBackup, plan as plan_retention};
pub use source::Source;
pub use strata_types::Secret;
pub use verified_packs::RepairScope;
pub use verify::{Damage, Verified};
