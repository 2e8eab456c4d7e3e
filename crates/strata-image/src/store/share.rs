//! How much of the disk the images of one project may take.
//!
//! Images that something runs from stay, so a project could fill the disk with
//! its own until others pull nothing. It is charged for all that its images
//! need, whether or not others need it too: for the images that were pulled or
//! used for it, and those that its instances run from under a name that means
//! another image by now. The charge may be a share of what it holds and what is
//! free together, which leaves others at least as much as it has by default;
//! the next project has the same share of the rest.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::budget::{DiskReserve, ENTRY};
use super::{Inner, Store, StoreError};
use crate::manifest::Manifest;
use crate::{Digest, Reference};

/// The images of a project hold what they may hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the images of project {project} take {held} {unit} of this node's disk, and those of one \
     project may take {limit}: {percent} percent of what they hold and what is free"
)]
pub struct ShareReached {
    project: String,
    held: u64,
    limit: u64,
    unit: &'static str,
    percent: u8,
}

/// Disk, in both units that it runs out of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// With a block for each entry of a layer.
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl Amount {
    /// What an unpacked layer takes.
    pub(super) fn of_layer(bytes: u64, entries: u64) -> Self {
        Self {
            bytes: bytes.saturating_add(entries.saturating_mul(ENTRY)),
            inodes: entries,
        }
    }

    pub(super) fn of_blob(bytes: u64) -> Self {
        Self { bytes, inodes: 1 }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
    }
}

/// The share of one project, in percent; 100 is no bound beside the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProjectShare(pub(super) u8);

impl ProjectShare {
    /// Part of what a project holds and what is free together.
    pub(super) fn limit(self, held: u64, free: u64) -> u64 {
        let all = u128::from(held) + u128::from(free);
        u64::try_from(all * u128::from(self.0) / 100).unwrap_or(u64::MAX)
    }

    pub(super) fn is_over(self, held: Amount, free: Amount) -> bool {
        self.check("", held, free).is_err()
    }

    fn check(self, project: &str, held: Amount, free: Amount) -> Result<(), ShareReached> {
        self.check_amount(project, held.bytes, free.bytes, "bytes")?;
        self.check_amount(project, held.inodes, free.inodes, "inodes")
    }

    fn check_amount(
        self,
        project: &str,
        held: u64,
        free: u64,
        unit: &'static str,
    ) -> Result<(), ShareReached> {
        let limit = self.limit(held, free);
        if self.0 >= 100 || held <= limit {
            return Ok(());
        }
        Err(ShareReached {
            project: project.to_owned(),
            held,
            limit,
            unit,
            percent: self.0,
        })
    }
}

/// What images may still take of the file system of this directory. One that
/// cannot be read, or does not count inodes, bounds nothing.
pub(super) fn free(reserve: DiskReserve, dir: &Path) -> Amount {
    let unbounded = u64::MAX;
    let Ok(found) = rustix::fs::statvfs(dir) else {
        return Amount {
            bytes: unbounded,
            inodes: unbounded,
        };
    };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let (total, available) = (bytes(found.f_blocks), bytes(found.f_bavail));
    let inodes = DiskReserve {
        least: 0,
        ..reserve
    };
    Amount {
        bytes: available.saturating_sub(reserve.of(total)),
        inodes: match found.f_files {
            0 => unbounded,
            files => found.f_favail.saturating_sub(inodes.of(files)),
        },
    }
}

/// What a project is charged for.
#[derive(Debug, Default)]
pub(super) struct Holding {
    amount: Amount,
    blobs: HashSet<Digest>,
    layers: HashSet<Digest>,
}

/// What pulls under way add, by project.
#[derive(Debug, Default)]
pub(super) struct Charges(Mutex<HashMap<String, Weak<Charge>>>);

#[derive(Debug, Default)]
struct Charge {
    bytes: AtomicU64,
    inodes: AtomicU64,
}

impl Charge {
    fn add(&self, amount: Amount) {
        self.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
        self.inodes.fetch_add(amount.inodes, Ordering::Relaxed);
    }

    fn amount(&self) -> Amount {
        Amount {
            bytes: self.bytes.load(Ordering::Relaxed),
            inodes: self.inodes.load(Ordering::Relaxed),
        }
    }
}

impl Charges {
    fn of(&self, project: &str) -> Arc<Charge> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, charge| charge.strong_count() > 0);
        if let Some(charge) = all.get(project).and_then(Weak::upgrade) {
            return charge;
        }
        let charge = Arc::default();
        all.insert(project.to_owned(), Arc::downgrade(&charge));
        charge
    }
}

/// What one pull adds to the charge of its project. Gives it back at its end:
/// then the record of the image says what the project holds.
pub(super) struct PullShare {
    store: Arc<Inner>,
    project: String,
    used: Vec<Digest>,
    together: Arc<Charge>,
    own: Charge,
    /// With the number of the last change of any record that it knows.
    holding: Mutex<(u64, Holding)>,
}

impl PullShare {
    pub(super) fn new(
        store: &Arc<Inner>,
        project: &str,
        used: Vec<Digest>,
    ) -> Result<Self, StoreError> {
        let changes = store.changes.load(Ordering::Acquire);
        let holding = store.holding(project, &used)?;
        Ok(Self {
            together: store.charges.of(project),
            store: Arc::clone(store),
            project: project.to_owned(),
            used,
            own: Charge::default(),
            holding: Mutex::new((changes, holding)),
        })
    }

    /// Charges what is about to be downloaded.
    pub(super) fn declare(&self, manifest: &Manifest) -> Result<(), StoreError> {
        {
            let holding = self.lock();
            let mut seen = HashSet::new();
            for layer in &manifest.layers {
                if seen.insert(layer.digest) && !holding.1.blobs.contains(&layer.digest) {
                    self.add(Amount::of_blob(layer.size));
                }
            }
        }
        self.check()
    }

    /// Charges a layer that is there, for others at least.
    pub(super) fn reuse(&self, diff_id: &Digest, amount: Amount) {
        if !self.lock().1.layers.contains(diff_id) {
            self.add(amount);
        }
    }

    pub(super) fn add(&self, amount: Amount) {
        self.own.add(amount);
        self.together.add(amount);
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let changes = self.store.changes.load(Ordering::Acquire);
        let mut holding = self.lock();
        if holding.0 != changes {
            *holding = (changes, self.store.holding(&self.project, &self.used)?);
        }
        let mut held = holding.1.amount;
        drop(holding);
        held.add(self.together.amount());
        self.store.check_share(&self.project, held)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Holding)> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PullShare {
    fn drop(&mut self) {
        let own = self.own.amount();
        self.together.bytes.fetch_sub(own.bytes, Ordering::Relaxed);
        let inodes = &self.together.inodes;
        inodes.fetch_sub(own.inodes, Ordering::Relaxed);
    }
}

impl Store {
    /// Notes that an image which is here is used for a project, which is
    /// charged for it from now on. `used` are the manifests that its instances
    /// run from.
    pub fn claim(
        &self,
        reference: &Reference,
        project: &str,
        used: &[Digest],
    ) -> Result<(), StoreError> {
        let store = &self.0;
        let digest = {
            let record = store.record(reference)?;
            let Some((record, _)) = record else {
                return Err(StoreError::UnknownImage(reference.clone()));
            };
            if record.projects.contains(project) {
                return Ok(());
            }
            record.manifest
        };
        let before = store.holding(project, used)?;
        let with = [used, &[digest]].concat();
        let mut held = store.holding(project, &with)?.amount;
        if held != before.amount {
            held.add(store.charges.of(project).amount());
            store.check_share(project, held)?;
        }
        store.change_record(reference, |record| {
            record.manifest == digest && record.projects.insert(project.to_owned())
        })
    }
}

impl Inner {
    fn check_share(&self, project: &str, held: Amount) -> Result<(), StoreError> {
        let free = free(self.options.reserve, &self.paths.layers());
        let share = ProjectShare(self.options.project_percent);
        Ok(share.check(project, held, free)?)
    }

    /// What the images of a project need, and those that it runs.
    pub(super) fn holding(&self, project: &str, used: &[Digest]) -> Result<Holding, StoreError> {
        let records = self.records()?.into_iter();
        let own = records.filter(|(record, _)| record.projects.contains(project));
        let mut manifests: BTreeSet<Digest> = own.map(|(record, _)| record.manifest).collect();
        manifests.extend(used);
        let mut holding = Holding::default();
        for manifest in &manifests {
            // What has no content takes no disk.
            let Ok(needs) = self.needs(manifest) else {
                continue;
            };
            holding.blobs.extend(needs.documents);
            holding.blobs.extend(needs.packed.keys());
            holding.layers.extend(needs.layers);
        }
        for blob in &holding.blobs {
            if let Ok(found) = fs::metadata(self.paths.blob(blob)) {
                holding.amount.add(Amount::of_blob(found.len()));
            }
        }
        for layer in &holding.layers {
            holding.amount.add(self.layer_amount(layer));
        }
        Ok(holding)
    }

    /// What an unpacked layer takes; nothing if it is not there.
    pub(super) fn layer_amount(&self, diff_id: &Digest) -> Amount {
        let bytes = self.layer_size(diff_id).unwrap_or(0);
        Amount::of_layer(bytes, self.layer_entries(diff_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> Amount {
        Amount { bytes, inodes: 0 }
    }

    #[test]
    fn project_leaves_others_as_much_as_it_has() {
        let share = ProjectShare(50);
        assert!(!share.is_over(bytes(50), bytes(50)));
        assert!(share.is_over(bytes(51), bytes(49)));
        // The next one: half of the rest.
        assert!(!share.is_over(bytes(25), bytes(25)));
        assert!(share.is_over(bytes(26), bytes(24)));
        assert!(!ProjectShare(100).is_over(bytes(u64::MAX), bytes(0)));
        assert!(!share.is_over(bytes(u64::MAX), bytes(u64::MAX)));
    }

    #[test]
    fn inodes_are_shared_like_bytes() {
        let held = Amount {
            bytes: 1,
            inodes: 11,
        };
        let free = Amount {
            bytes: 100,
            inodes: 10,
        };
        let reached = ProjectShare(50).check("shop", held, free).unwrap_err();
        assert_eq!((reached.unit, reached.limit), ("inodes", 10));
    }

    #[test]
    fn charges_of_concurrent_pulls_add_up_and_end() {
        let charges = Charges::default();
        let (one, same, other) = (charges.of("a"), charges.of("a"), charges.of("b"));
        one.add(bytes(3));
        same.add(bytes(4));
        assert_eq!(one.amount(), bytes(7));
        assert_eq!(other.amount(), bytes(0));
        drop((one, same));
        assert_eq!(charges.of("a").amount(), bytes(0));
        assert_eq!(charges.0.lock().unwrap().len(), 2);
    }
}
