//! How much one pull may put on the disk: a sum over all layers of the image,
//! and none of the reserve that is left to everything else on the same file
//! system.
//!
//! Bounds on single layers do not suffice: an image has up to 500 of them, and
//! several are unpacked at once. So the layers of a pull charge one budget
//! while they are unpacked, and with it the share of the project that it is
//! for.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::share::{Amount, PullShare};
use super::{StoreError, StoreOptions};
use crate::Digest;
use crate::manifest::Manifest;
use crate::unpack::UnpackError;

/// Bytes between two looks at the free space.
const STEP: u64 = 1 << 20;
/// What an entry takes beside its data: an inode, and a block if it is a
/// directory.
pub(super) const ENTRY: u64 = 4096;

/// What images leave free on the file system of the store, for everything else
/// that writes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskReserve {
    /// Percent of the file system; 0 for no reserve.
    pub percent: u8,
    /// At least so many bytes, but of a small file system never more than a
    /// tenth.
    pub least: u64,
}

impl Default for DiskReserve {
    fn default() -> Self {
        Self {
            percent: 5,
            least: 2 << 30,
        }
    }
}

/// Images have used up what they may use of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file system of the images has {available} {unit} left, and images leave {reserve} of \
     them free"
)]
pub struct ReserveReached {
    available: u64,
    reserve: u64,
    unit: &'static str,
}

impl DiskReserve {
    /// Without one, images may fill the file system.
    pub const NONE: Self = Self {
        percent: 0,
        least: 0,
    };

    pub(super) fn of(self, total: u64) -> u64 {
        let share = u128::from(total) * u128::from(self.percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        match self.percent {
            0 => 0,
            _ => share.max(self.least.min(total / 10)),
        }
    }

    /// Whether the file system of this directory has more free than the
    /// reserve. One that cannot be read is as good as one that has.
    pub(super) fn check(self, dir: &Path) -> Result<(), ReserveReached> {
        let Ok(found) = rustix::fs::statvfs(dir) else {
            return Ok(());
        };
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let (total, available) = (bytes(found.f_blocks), bytes(found.f_bavail));
        self.check_amount(total, available, "bytes")?;
        // File systems that allot inodes as they need them report none.
        let inodes = Self { least: 0, ..self };
        inodes.check_amount(found.f_files, found.f_favail, "inodes")
    }

    fn check_amount(
        self,
        total: u64,
        available: u64,
        unit: &'static str,
    ) -> Result<(), ReserveReached> {
        let reserve = self.of(total);
        match available < reserve {
            true => Err(ReserveReached {
                available,
                reserve,
                unit,
            }),
            false => Ok(()),
        }
    }
}

impl From<ReserveReached> for io::Error {
    fn from(error: ReserveReached) -> Self {
        Self::new(io::ErrorKind::StorageFull, error)
    }
}

/// What one pull may write.
pub(super) struct Budget {
    limit: u64,
    ratio: u64,
    ratio_from: u64,
    packed: u64,
    reserve: DiskReserve,
    dir: PathBuf,
    /// Bytes of all tars.
    unpacked: AtomicU64,
    entries: AtomicU64,
    unchecked: AtomicU64,
    /// That of the project; a caller of the node has none.
    share: Option<Arc<PullShare>>,
    /// Dropped with the last holder of the budget.
    _held: mpsc::Sender<()>,
}

impl Budget {
    /// That of an image; and what ends when no thread works on it any more.
    pub(super) fn new(
        options: &StoreOptions,
        dir: &Path,
        manifest: &Manifest,
        share: Option<Arc<PullShare>>,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let (held, released) = mpsc::channel(1);
        let sizes = manifest.layers.iter().map(|layer| layer.size);
        let budget = Self {
            limit: options.image_bytes,
            ratio: options.limits.ratio,
            ratio_from: options.limits.ratio_from,
            packed: sizes.fold(0, u64::saturating_add).max(1),
            reserve: options.reserve,
            dir: dir.to_owned(),
            unpacked: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            // So that the first charge looks.
            unchecked: AtomicU64::new(STEP),
            share,
            _held: held,
        };
        (Arc::new(budget), released)
    }

    /// Counts a layer that is there already.
    pub(super) fn reuse(
        &self,
        diff_id: &Digest,
        bytes: u64,
        amount: Amount,
    ) -> Result<(), UnpackError> {
        if let Some(share) = &self.share {
            share.reuse(diff_id, amount);
        }
        self.count(bytes)
    }

    fn count(&self, bytes: u64) -> Result<(), UnpackError> {
        let unpacked = self.unpacked.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let entries = self.entries.load(Ordering::Relaxed);
        if unpacked.saturating_add(entries.saturating_mul(ENTRY)) > self.limit {
            return Err(UnpackError::ImageTooLarge(self.limit));
        }
        if unpacked > self.ratio_from && unpacked / self.packed > self.ratio {
            return Err(UnpackError::Bomb(self.ratio));
        }
        Ok(())
    }

    /// Charges bytes that are about to be written.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), UnpackError> {
        self.count(bytes)?;
        self.look(Amount { bytes, inodes: 0 })
    }

    /// Charges an entry, beside its bytes.
    pub(super) fn charge_entry(&self) -> Result<(), UnpackError> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.count(0)?;
        self.look(Amount::of_layer(0, 1))
    }

    fn look(&self, amount: Amount) -> Result<(), UnpackError> {
        if let Some(share) = &self.share {
            share.add(amount);
        }
        let bytes = amount.bytes;
        if self.unchecked.fetch_add(bytes, Ordering::Relaxed) + bytes < STEP {
            return Ok(());
        }
        self.unchecked.store(0, Ordering::Relaxed);
        self.reserve.check(&self.dir)?;
        match self.share.as_ref().map_or(Ok(()), |share| share.check()) {
            Ok(()) => Ok(()),
            Err(StoreError::Share(reached)) => Err(UnpackError::Share(reached)),
            Err(error) => Err(UnpackError::Io {
                action: "charge",
                path: self.dir.display().to_string(),
                source: io::Error::other(error),
            }),
        }
    }
}

/// Looks at the free space once in so many bytes of a download.
pub(super) struct DownloadRoom<'a> {
    reserve: DiskReserve,
    dir: &'a Path,
    unchecked: u64,
}

impl<'a> DownloadRoom<'a> {
    pub(super) fn new(reserve: DiskReserve, dir: &'a Path) -> Self {
        Self {
            reserve,
            dir,
            unchecked: STEP,
        }
    }

    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), ReserveReached> {
        self.unchecked = self.unchecked.saturating_add(bytes as u64);
        if self.unchecked < STEP {
            return Ok(());
        }
        self.unchecked = 0;
        self.reserve.check(self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_a_share_and_never_most_of_a_small_disk() {
        let reserve = |total| DiskReserve::default().of(total);
        assert_eq!(reserve(1000 << 30), 50 << 30);
        assert_eq!(reserve(30 << 30), 2 << 30);
        assert_eq!(reserve(10 << 30), 1 << 30);
        assert_eq!(reserve(0), 0);
        assert_eq!(reserve(u64::MAX), u64::MAX / 20);
        assert_eq!(DiskReserve::NONE.of(1000 << 30), 0);
    }

    #[test]
    fn layers_and_entries_are_charged_together() {
        let manifest = Manifest {
            schema_version: 2,
            media_type: String::new(),
            config: crate::Descriptor::new("", Digest::of(b""), 0),
            layers: vec![crate::Descriptor::new("", Digest::of(b""), 1000)],
        };
        let mut options = StoreOptions {
            image_bytes: 1 << 20,
            reserve: DiskReserve::NONE,
            ..StoreOptions::default()
        };
        let dir = Path::new("/");
        let (budget, _) = Budget::new(&options, dir, &manifest, None);
        budget.charge(512 << 10).unwrap();
        for _ in 0..128 {
            budget.charge_entry().unwrap();
        }
        let full = budget.charge_entry().unwrap_err();
        assert!(matches!(full, UnpackError::ImageTooLarge(_)), "{full}");

        options.limits.ratio_from = 100_000;
        let (budget, _) = Budget::new(&options, dir, &manifest, None);
        budget.count(200_000).unwrap();
        let bomb = budget.count(1000).unwrap_err();
        assert!(matches!(bomb, UnpackError::Bomb(200)), "{bomb}");
    }
}
