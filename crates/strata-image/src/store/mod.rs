//! The content store: blobs and unpacked layers by digest, images by name.
//!
//! ```text
//! blobs/sha256/<digest>   manifests, configs, packed layers; checked, whole
//! layers/<diff id>/root   unpacked layers, lowers of overlays; checked, whole
//! layers/<diff id>/size   how large one is
//! layers/<diff id>/entries  of how many files and directories
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
//! References are never stored. It is computed from the images' records, the
//! images that the caller reports as in use, and the pulls under way.

mod budget;
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
mod share;
mod unsynced;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::{Digest, ImageConfig, Limits, Manifest, Reference, Shares};
pub use budget::{DiskReserve, ReserveReached};
pub use error::StoreError;
use flight::InFlight;
pub use leases::ImageHold;
use leases::Leases;
use paths::Paths;
pub use plan::PruneGoal;
pub use progress::{LayerProgress, Phase, Progress};
use provenance::Provenance;
pub use prune::Pruned;
pub use pull::PullOptions;
use share::Charges;
pub use share::ShareReached;

/// How a store works.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How many blobs are downloaded at once, by all pulls together. Those of
    /// one holder ([`PullOptions::holder`]) are half of them at most.
    pub downloads: usize,
    /// How many layers are unpacked at once; each uses two threads.
    pub unpacks: usize,
    /// What a layer may unpack to.
    pub limits: Limits,
    /// What all layers of an image may unpack to together, with a block for
    /// each entry.
    pub image_bytes: u64,
    /// What images leave free of the file system.
    pub reserve: DiskReserve,
    /// What the images of one project may take, in percent of what they hold
    /// and what is free together; 100 for no bound beside the reserve.
    pub project_percent: u8,
    /// How often a request is repeated that brought nothing new.
    pub attempts: u32,
    /// The first wait between two attempts; it doubles up to `longest_wait`.
    pub first_wait: Duration,
    /// The longest wait. A registry that requests more is given up.
    pub longest_wait: Duration,
    /// How long a cut download is kept to be resumed.
    pub keep_partial: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            downloads: 8,
            unpacks: std::thread::available_parallelism().map_or(2, usize::from),
            limits: Limits::default(),
            image_bytes: 64 << 30,
            reserve: DiskReserve::default(),
            project_percent: 50,
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
    pub reference: Reference,
    /// The digest of its manifest: what the name meant when it was pulled.
    pub digest: Digest,
    pub manifest: Manifest,
    pub config: ImageConfig,
    /// Its unpacked layers, the lowest first, as lowers of an overlay.
    pub layers: Vec<PathBuf>,
    /// Bytes of its blobs, packed.
    pub packed_size: u64,
    /// Bytes of its files, unpacked; other images may share them.
    pub unpacked_size: u64,
    /// Whether the last pull was by credentials of the caller: that it is here
    /// implies no access for others.
    pub private: bool,
    /// The projects that it was pulled or used for.
    pub projects: BTreeSet<String>,
    /// When it was pulled.
    pub pulled_at: jiff::Timestamp,
    /// When it was last used, as far as reported to [`Store::touch`].
    pub used_at: jiff::Timestamp,
}

/// The content store of one node. Cheap to clone; one process at a time.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    paths: Paths,
    options: StoreOptions,
    downloads: Arc<Shares>,
    unpacks: Arc<Semaphore>,
    flights: InFlight,
    leases: Mutex<Leases>,
    provenance: Provenance,
    charges: Charges,
    /// Held while a record is changed or removed.
    records: Mutex<()>,
    /// How often a record was changed or removed.
    changes: AtomicU64,
    boot: String,
    /// Held for as long as the store is open.
    _lock: std::fs::File,
}

impl Store {
    /// Opens the store in this directory, made when it is not there, and clears
    /// away what a death left half done. Blocks for as long as that takes.
    pub fn open(root: impl Into<PathBuf>, options: StoreOptions) -> Result<Self, StoreError> {
        let paths = Paths::new(root.into());
        let lock = clean::prepare(&paths)?;
        let boot = unsynced::boot_id();
        clean::clean(&paths, &boot, options.keep_partial)?;
        let inner = Inner {
            downloads: Shares::new(options.downloads),
            unpacks: Arc::new(Semaphore::new(options.unpacks.max(1))),
            flights: InFlight::default(),
            leases: Mutex::new(Leases::default()),
            provenance: Provenance::default(),
            charges: Charges::default(),
            records: Mutex::new(()),
            changes: AtomicU64::new(0),
            paths,
            options,
            boot,
            _lock: lock,
        };
        inner.note_images()?;
        Ok(Self(Arc::new(inner)))
    }
}
