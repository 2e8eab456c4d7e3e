//! Volumes: subvolumes with a record in them, so that the record goes along
//! into snapshots, clones and backups.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{Mode, OFlags, ftruncate};
use rustix::io::Errno;
use strata_types::Label;
use strata_types::storage::{PoolVolume, VolumeKind};

use super::volume_record::VolumeRecord;
use super::{Shared, StoragePool, snapshots, tree};
use crate::btrfs::{self, Fs};
use crate::{Result, StorageError, VolumeRef};

pub(super) const DATA: &str = "data";
pub(super) const DISK: &str = "disk.raw";
/// Below this a file system or a disk is of no use.
const MIN_QUOTA: u64 = 1 << 20;
const BLOCK: u64 = 4096;

impl StoragePool {
    /// Makes a volume, empty or as a clone, which shares its data with what it
    /// was cloned from until one of them is written. The same again gives the
    /// same; another under that name is refused.
    ///
    /// A disk needs a quota, which is its size; a clone of a disk has the size
    /// of its origin if none is given.
    pub async fn create_volume(
        &self,
        name: &Label,
        kind: VolumeKind,
        quota: Option<u64>,
        from: Option<VolumeRef>,
    ) -> Result<PoolVolume> {
        let made = self.ensure_volume(name, kind, quota, from).await;
        made.map(|(volume, _)| volume)
    }

    /// As [`create_volume`](Self::create_volume); the flag says whether this
    /// call created it. Of several calls at once it is set for one.
    pub async fn ensure_volume(
        &self,
        name: &Label,
        kind: VolumeKind,
        quota: Option<u64>,
        from: Option<VolumeRef>,
    ) -> Result<(PoolVolume, bool)> {
        let name = name.clone();
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            let is_new = create(pool, &fs, &name, kind, quota, from.as_ref())?;
            Ok((describe(&fs, &name)?, is_new))
        })
        .await
    }

    /// All volumes, by name.
    pub async fn volumes(&self) -> Result<Vec<PoolVolume>> {
        self.run(|pool| {
            let fs = pool.fs()?;
            recount_if_lost(&fs);
            let mut volumes = Vec::new();
            for name in list(&fs)? {
                match describe(&fs, &name) {
                    // Removed meanwhile.
                    Err(StorageError::NoVolume { .. }) => {}
                    other => volumes.push(other?),
                }
            }
            Ok(volumes)
        })
        .await
    }

    pub async fn volume(&self, name: &Label) -> Result<PoolVolume> {
        let name = name.clone();
        self.run(move |pool| describe(&pool.fs()?, &name)).await
    }

    /// Changes the most a volume may hold. Refused below what it holds; a disk
    /// only grows, because it is unknown what its end is used for.
    pub async fn resize_volume(&self, name: &Label, quota: Option<u64>) -> Result<PoolVolume> {
        let name = name.clone();
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            resize(&fs, &name, quota)?;
            describe(&fs, &name)
        })
        .await
    }

    /// Deletes a volume with its snapshots; clones of it stay. Gone already is
    /// no error. Its users must have stopped.
    pub async fn remove_volume(&self, name: &Label) -> Result<()> {
        let name = name.clone();
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            remove(&pool.fs()?, &name)
        })
        .await
    }
}

/// How many volumes there are.
pub(super) fn count(pool: &Shared) -> Result<usize> {
    Ok(list(&pool.fs()?)?.len())
}

pub(super) fn list(fs: &Fs) -> Result<Vec<Label>> {
    let failed = || StorageError::at::<Errno>("look through", tree::VOLUMES);
    let dir = tree::open_dir(&fs.root, tree::VOLUMES).map_err(failed())?;
    tree::labels(&dir).map_err(failed())
}

/// The uppermost directory of a volume.
pub(super) fn open(fs: &Fs, name: &Label) -> Result<OwnedFd> {
    let path = format!("{}/{}", tree::VOLUMES, name.as_str());
    tree::open_dir(&fs.root, &path).map_err(|errno| match errno {
        Errno::NOENT => StorageError::NoVolume {
            name: name.as_str().into(),
        },
        errno => StorageError::at("open", path)(errno),
    })
}

/// Kernels that drop large subvolumes may lose count; then all is counted again.
fn recount_if_lost(fs: &Fs) {
    if fs.lost_count() == Ok(true)
        && let Err(errno) = fs.rescan_quota()
    {
        tracing::warn!(%errno, "quota rescan failed");
    }
}

pub(super) fn describe(fs: &Fs, name: &Label) -> Result<PoolVolume> {
    let volume = open(fs, name)?;
    let record = VolumeRecord::read(&volume, name)?;
    let info = btrfs::info(&volume).map_err(at("look at", name))?;
    let (used_bytes, exclusive_bytes) = fs.usage(info.id).unwrap_or_default();
    Ok(PoolVolume {
        name: name.as_str().into(),
        kind: record.kind,
        quota_bytes: record.quota_bytes,
        used_bytes,
        exclusive_bytes,
        origin: record.origin,
        created_at_ms: record.created_at_ms,
        snapshots: snapshots::list(fs, name)?,
    })
}

pub(super) fn at(what: &'static str, name: &Label) -> impl FnOnce(Errno) -> StorageError {
    StorageError::at(what, format!("{}/{}", tree::VOLUMES, name.as_str()))
}

/// Creates a volume; whether there was none of that name.
fn create(
    pool: &Shared,
    fs: &Fs,
    name: &Label,
    kind: VolumeKind,
    quota: Option<u64>,
    from: Option<&VolumeRef>,
) -> Result<bool> {
    check_quota(quota)?;
    let source = from.map(|from| snapshots::open_ref(fs, from)).transpose();
    let existing = open(fs, name);
    if let Ok(existing) = &existing {
        let record = VolumeRecord::read(existing, name)?;
        return record.must_be(name, kind, quota, from).map(|()| false);
    }
    let mut record = VolumeRecord::new(kind, quota, from);
    let making = tree::open_dir(&fs.root, tree::MAKING).map_err(at("make", name))?;
    tree::clear(making.as_fd(), name.as_str()).map_err(at("clear up", name))?;
    if let Some(source) = source? {
        let origin = VolumeRecord::read(&source, name)?;
        if origin.kind != kind {
            let why = format!("the origin holds {}", origin.kind_text());
            return Err(StorageError::invalid("kind", why));
        }
        if kind == VolumeKind::Disk && quota.is_none() {
            record.quota_bytes = origin.quota_bytes;
        }
        fs.sync().map_err(at("sync", name))?;
        let held = btrfs::info(&source).and_then(|info| fs.usage(info.id));
        must_fit(name, &record, &origin, held.unwrap_or_default().0)?;
        btrfs::snapshot(source.as_fd(), making.as_fd(), name.as_str(), false)
    } else {
        btrfs::create(making.as_fd(), name.as_str())
    }
    .map_err(at("make", name))?;
    let volume = tree::open_dir(&making, name.as_str()).map_err(at("open", name))?;
    fill(&volume, &record).map_err(at("make", name))?;
    record
        .write(&volume)
        .map_err(at("write the record of", name))?;
    limit(&volume, &record).map_err(at("limit", name))?;
    let volumes = tree::open_dir(&fs.root, tree::VOLUMES).map_err(at("make", name))?;
    tree::rename(&making, name.as_str(), &volumes, name.as_str()).map_err(at("make", name))?;
    fs.sync().map_err(StorageError::at("sync", &pool.mount))?;
    Ok(true)
}

fn check_quota(quota: Option<u64>) -> Result<()> {
    match quota {
        Some(quota) if quota < MIN_QUOTA => Err(StorageError::invalid(
            "quotaBytes",
            format!("must be at least {MIN_QUOTA}, is {quota}"),
        )),
        _ => Ok(()),
    }
}

/// What is in the origin must be allowed in the clone.
fn must_fit(name: &Label, new: &VolumeRecord, origin: &VolumeRecord, held: u64) -> Result<()> {
    let (Some(quota), used) = (
        new.quota_bytes,
        match new.kind {
            VolumeKind::Files => held,
            VolumeKind::Disk => origin.quota_bytes.unwrap_or_default(),
        },
    ) else {
        return Ok(());
    };
    if quota < used {
        return Err(StorageError::QuotaBelowUsed {
            name: name.as_str().into(),
            used,
            quota,
        });
    }
    Ok(())
}

/// What every volume has in it.
fn fill(volume: &OwnedFd, record: &VolumeRecord) -> Result<(), Errno> {
    match (record.kind, record.quota_bytes) {
        (VolumeKind::Files, _) => tree::make_dir(volume, DATA, 0o755).map(drop),
        (VolumeKind::Disk, Some(bytes)) => {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let disk = tree::open(volume, DISK, flags, Mode::from_raw_mode(0o600))?;
            ftruncate(&disk, bytes.next_multiple_of(BLOCK))
        }
        (VolumeKind::Disk, None) => Err(Errno::INVAL),
    }
}

/// A disk is as large as it is; what it takes in the pool while old content
/// is kept for a snapshot can be more, and must not fail its writes.
pub(super) fn limit(volume: &OwnedFd, record: &VolumeRecord) -> Result<(), Errno> {
    match record.kind {
        VolumeKind::Files => btrfs::set_limit(volume.as_fd(), record.quota_bytes),
        VolumeKind::Disk => Ok(()),
    }
}

fn resize(fs: &Fs, name: &Label, quota: Option<u64>) -> Result<()> {
    check_quota(quota)?;
    let volume = open(fs, name)?;
    let mut record = VolumeRecord::read(&volume, name)?;
    let held = match record.kind {
        VolumeKind::Files => {
            fs.sync().map_err(at("sync", name))?;
            let info = btrfs::info(&volume).map_err(at("look at", name))?;
            fs.usage(info.id).unwrap_or_default().0
        }
        VolumeKind::Disk => record.quota_bytes.unwrap_or_default(),
    };
    if let Some(quota) = quota
        && quota < held
    {
        return Err(StorageError::QuotaBelowUsed {
            name: name.as_str().into(),
            used: held,
            quota,
        });
    }
    if record.kind == VolumeKind::Disk && quota.is_none() {
        return Err(StorageError::invalid("quotaBytes", "a disk needs a size"));
    }
    record.quota_bytes = quota;
    // The limit first: a volume that is full has no room for a new record.
    limit(&volume, &record).map_err(at("limit", name))?;
    if record.kind == VolumeKind::Disk {
        fill(&volume, &record).map_err(at("enlarge", name))?;
    }
    record
        .write(&volume)
        .map_err(at("write the record of", name))?;
    fs.sync().map_err(at("sync", name))
}

fn remove(fs: &Fs, name: &Label) -> Result<()> {
    let volumes = tree::open_dir(&fs.root, tree::VOLUMES).map_err(at("remove", name))?;
    let making = tree::open_dir(&fs.root, tree::MAKING).map_err(at("remove", name))?;
    let gone = format!("gone-{}", name.as_str());
    tree::clear(making.as_fd(), &gone).map_err(at("remove", name))?;
    // Out of sight first: half of a volume is never seen.
    match tree::rename(&volumes, name.as_str(), &making, &gone) {
        Ok(()) | Err(Errno::NOENT) => {}
        // No room even for that: then at once, in one step.
        Err(Errno::NOSPC) => {
            tree::clear(volumes.as_fd(), name.as_str()).map_err(at("remove", name))?;
        }
        Err(errno) => return Err(at("remove", name)(errno)),
    }
    tree::clear(making.as_fd(), &gone).map_err(at("remove", name))?;
    snapshots::remove_all(fs, name)
}

/// Limits are kept by the file system; this mends what a death left between
/// a record and its limit.
pub(super) fn limit_all(pool: &Shared, fs: &Fs) -> Result<()> {
    let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
    for name in list(fs)? {
        let volume = open(fs, &name)?;
        let limited = VolumeRecord::read(&volume, &name)
            .and_then(|record| limit(&volume, &record).map_err(at("limit", &name)));
        if let Err(error) = limited {
            tracing::warn!(volume = name.as_str(), %error, "volume quota not set");
        }
    }
    Ok(())
}
