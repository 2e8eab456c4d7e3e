//! The content store: blobs and unpacked layers by digest, images by name.
//!
//! ```text
//! blobs/sha256/<digest>   manifests, configs, packed layers; checked, whole
//! layers/<diff id>/root   unpacked layers, lowers of overlays; checked, whole
//! layers/<diff id>/size   how large one is
//! images/<key>.json       name → manifest; its mtime is when it was last used
//! partial/<digest>        downloads that were cut, to be resumed
//! tmp/                    what is being made; emptied at every opening
//! unsynced/               what a loss of power could have torn
//! ```
//!
//! Everything comes into its place by one rename, so the death of the daemon
//! leaves it whole or absent. Nothing waits for the disk: what a loss of
//! power could tear is noted by the boot it was written in, synced once after
//! each pull, and thrown away at the next opening if that did not happen.
//!
//! Who needs what is never stored. It is computed from the images' records,
//! the images that the caller says are in use, and the pulls under way.

mod clean;
mod download;
mod error;
mod flight;
mod layer;
mod leases;
mod paths;
mod plan;
mod progress;
mod provenance;
mod prune;
mod pull;
mod record;
mod retry;
mod unsynced;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::{Digest, ImageConfig, Limits, Manifest, Reference};
pub use error::StoreError;
use flight::Flights;
pub use leases::Hold;
use leases::Leases;
use paths::Paths;
pub use plan::PruneGoal;
pub use progress::{LayerProgress, Phase, Progress};
use provenance::Provenance;
pub use prune::Pruned;
pub use pull::PullOptions;

/// How a store works.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How many blobs are downloaded at once, by all pulls together.
    pub downloads: usize,
    /// How many layers are unpacked at once; each uses two threads.
    pub unpacks: usize,
    /// What a layer may unpack to.
    pub limits: Limits,
    /// How often a request is repeated that brought nothing new.
    pub attempts: u32,
    /// The first wait between two attempts; it doubles up to `longest_wait`.
    pub first_wait: Duration,
    /// The longest wait. A registry that asks for more is given up.
    pub longest_wait: Duration,
    /// How long a cut download is kept to be resumed.
    pub keep_partial: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            downloads: 4,
            unpacks: std::thread::available_parallelism().map_or(2, usize::from),
            limits: Limits::default(),
            attempts: 6,
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(60),
            keep_partial: Duration::from_secs(24 * 3600),
        }
    }
}

/// An image that is here, whole.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name.
    pub reference: Reference,
    /// The digest of its manifest: what the name meant when it was pulled.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: Manifest,
    /// How it wants to be run.
    pub config: ImageConfig,
    /// Its unpacked layers, the lowest first, as lowers of an overlay.
    pub layers: Vec<PathBuf>,
    /// Bytes of its blobs, packed.
    pub packed_size: u64,
    /// Bytes of its files, unpacked; other images may share them.
    pub unpacked_size: u64,
    /// Whether the last pull was by credentials of who asked for it: that it
    /// is here says nothing of who else may have it.
    pub private: bool,
    /// When it was pulled.
    pub pulled_at: jiff::Timestamp,
    /// When it was last used, as far as [`Store::touch`] was told.
    pub used_at: jiff::Timestamp,
}

/// The content store of one node. Cheap to clone; one process at a time.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    paths: Paths,
    options: StoreOptions,
    downloads: Arc<Semaphore>,
    unpacks: Arc<Semaphore>,
    flights: Flights,
    leases: Mutex<Leases>,
    provenance: Provenance,
    boot: String,
    /// Held for as long as the store is open.
    _lock: std::fs::File,
}

impl Store {
    /// Opens the store in this folder, made when it is not there, and clears
    /// away what a death left half done. Blocks for as long as that takes.
    pub fn open(root: impl Into<PathBuf>, options: StoreOptions) -> Result<Self, StoreError> {
        let paths = Paths::new(root.into());
        let lock = clean::prepare(&paths)?;
        let boot = unsynced::boot_id();
        clean::clean(&paths, &boot, options.keep_partial)?;
        let inner = Inner {
            downloads: Arc::new(Semaphore::new(options.downloads.max(1))),
            unpacks: Arc::new(Semaphore::new(options.unpacks.max(1))),
            flights: Flights::default(),
            leases: Mutex::new(Leases::default()),
            provenance: Provenance::default(),
            paths,
            options,
            boot,
            _lock: lock,
        };
        inner.note_images()?;
        Ok(Self(Arc::new(inner)))
    }
}
