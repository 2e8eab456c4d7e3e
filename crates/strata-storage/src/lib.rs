//! The storage pool: btrfs over block devices or files, with volumes on it.
//!
//! The file system itself does what must never go wrong: it keeps data twice,
//! checks it, moves it off a device while it is written to, and can be stopped
//! in the middle of that. This crate decides ([`plan`]), reports what is there,
//! and brings everything back after a crash. What is true of a device is read
//! from the file system and from the device each time; the record in
//! `pool.json` only remembers names.
//!
//! ```text
//! DIR/pool.json          names of the devices
//! DIR/devices/dN.img     files that are devices
//! DIR/mount              the file system:
//!   pool-id                   by this a node finds that it reaches the pool
//!   volumes/NAME              a subvolume: volume.json and data/ or disk.raw
//!   snapshots/NAME/SNAPSHOT   read-only subvolumes
//!   frozen/TAG/NAME           all volumes at one moment, for a backup
//!   staging/TAG/NAME          volumes that are being restored
//!   making                    what is not ready; empty after each start
//! ```

mod attach;
mod btrfs;
mod config;
mod device;
mod error;
mod mkfs;
mod mount;
pub mod plan;
mod pool;
mod record;
mod sys;

pub use config::{NewSpare, PoolConfig, VolumeRef};
pub use error::StorageError;
pub use pool::{Progress, StoragePool};

/// The result of something with the pool.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

pub use mount::remove;
