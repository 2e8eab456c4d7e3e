//! Volumes as they once were: read-only subvolumes beside them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use rustix::io::Errno;
use strata_types::Label;
use strata_types::storage::{PoolVolume, VolumeSnapshot};

use super::{Shared, StoragePool, tree, volumes};
use crate::btrfs::{self, Fs};
use crate::{Result, StorageError, VolumeRef};

impl StoragePool {
    /// Keeps a volume as it is at this moment. There already is no error.
    pub async fn snapshot_volume(&self, name: &Label, snapshot: &Label) -> Result<PoolVolume> {
        let (name, snapshot) = (name.clone(), snapshot.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            take(&fs, &name, &snapshot)?;
            volumes::describe(&fs, &name)
        })
        .await
    }

    /// Takes a snapshot away. Gone already is no error.
    pub async fn remove_snapshot(&self, name: &Label, snapshot: &Label) -> Result<()> {
        let (name, snapshot) = (name.clone(), snapshot.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            volumes::open(&fs, &name)?;
            match tree::open_dir(&fs.root, &dir_of(&name)) {
                Ok(dir) => tree::clear(dir.as_fd(), snapshot.as_str())
                    .map_err(volumes::at("remove a snapshot of", &name)),
                Err(_) => Ok(()),
            }
        })
        .await
    }
}

fn dir_of(name: &Label) -> String {
    format!("{}/{}", tree::SNAPSHOTS, name.as_str())
}

/// Takes a snapshot unless there is one of this name.
pub(super) fn take(fs: &Fs, name: &Label, snapshot: &Label) -> Result<()> {
    let failed = || volumes::at("take a snapshot of", name);
    let volume = volumes::open(fs, name)?;
    let all = tree::open_dir(&fs.root, tree::SNAPSHOTS).map_err(failed())?;
    let dir = tree::make_dir(&all, name.as_str(), 0o700).map_err(failed())?;
    match btrfs::snapshot(volume.as_fd(), dir.as_fd(), snapshot.as_str(), true) {
        Ok(()) | Err(Errno::EXIST) => fs.sync().map_err(failed()),
        Err(errno) => Err(failed()(errno)),
    }
}

/// The snapshots of a volume, oldest first.
pub(super) fn list(fs: &Fs, name: &Label) -> Result<Vec<VolumeSnapshot>> {
    let Ok(dir) = tree::open_dir(&fs.root, &dir_of(name)) else {
        return Ok(Vec::new());
    };
    let mut snapshots = Vec::new();
    for snapshot in tree::labels(&dir).map_err(volumes::at("look at", name))? {
        // One that is removed just now is not there.
        let Ok(subvolume) = tree::open_dir(&dir, snapshot.as_str()) else {
            continue;
        };
        let info = btrfs::info(&subvolume).map_err(volumes::at("look at", name))?;
        snapshots.push(VolumeSnapshot {
            name: snapshot.as_str().into(),
            created_at_ms: info.created_at_ms,
        });
    }
    snapshots.sort_by_key(|snapshot| snapshot.created_at_ms);
    Ok(snapshots)
}

/// The uppermost directory of a volume or a snapshot.
pub(super) fn open_ref(fs: &Fs, from: &VolumeRef) -> Result<OwnedFd> {
    let volume = volumes::open(fs, &from.volume)?;
    let Some(snapshot) = &from.snapshot else {
        return Ok(volume);
    };
    let path = format!("{}/{}", dir_of(&from.volume), snapshot.as_str());
    tree::open_dir(&fs.root, &path).map_err(|errno| match errno {
        Errno::NOENT => StorageError::NoSnapshot {
            volume: from.volume.as_str().into(),
            snapshot: snapshot.as_str().into(),
        },
        errno => StorageError::at("open", path)(errno),
    })
}

pub(super) fn remove_all(fs: &Fs, name: &Label) -> Result<()> {
    let failed = || volumes::at("remove the snapshots of", name);
    let all = tree::open_dir(&fs.root, tree::SNAPSHOTS).map_err(failed())?;
    tree::clear(all.as_fd(), name.as_str()).map_err(failed())
}

/// Snapshots of volumes that are gone: their removal was cut short.
pub(super) fn remove_orphans(pool: &Shared, fs: &Fs) -> Result<()> {
    let failed = || StorageError::at::<Errno>("look through", &pool.mount);
    let all = tree::open_dir(&fs.root, tree::SNAPSHOTS).map_err(failed())?;
    for name in tree::labels(&all).map_err(failed())? {
        if matches!(volumes::open(fs, &name), Err(StorageError::NoVolume { .. })) {
            remove_all(fs, &name)?;
        }
    }
    Ok(())
}
