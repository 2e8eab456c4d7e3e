//! A restore writes into a subvolume apart, which then takes the place of the
//! volume in one step. What was there stays as a snapshot.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::PoisonError;

use rustix::fs::{FileType, OFlags, RenameFlags, fstat, renameat_with};
use rustix::io::Errno;
use strata_types::Label;
use strata_types::storage::{PoolVolume, VolumeKind};

use super::freeze::{check_tag, drop_dir};
use super::volume_record::VolumeRecord;
use super::{StoragePool, snapshots, tree, volumes};
use crate::btrfs::{self, Fs};
use crate::{Result, StorageError};

impl StoragePool {
    /// A place to write a volume to: what a frozen volume holds, its record
    /// too. Repeated, it gives the same place with what was written.
    pub async fn stage(&self, tag: &str, name: &Label) -> Result<PathBuf> {
        let (tag, name) = (check_tag(tag)?, name.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            let failed = || volumes::at("stage", &name);
            let staging = tree::open_dir(&fs.root, tree::STAGING).map_err(failed())?;
            let dir = tree::make_dir(&staging, tag.as_str(), 0o700).map_err(failed())?;
            match btrfs::create(dir.as_fd(), name.as_str()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed()(errno)),
            }
            let path = pool.mount.join(tree::STAGING);
            Ok(path.join(tag.as_str()).join(name.as_str()))
        })
        .await
    }

    /// Puts what was staged in the place of the volume. With `replace`, a
    /// volume that is there stays as its snapshot `before-TAG`; without, it is
    /// an error. Repeated after it is done, it does nothing.
    pub async fn adopt(&self, tag: &str, name: &Label, replace: bool) -> Result<PoolVolume> {
        let (tag, name) = (check_tag(tag)?, name.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            adopt(&fs, &tag, &name, replace)?;
            volumes::describe(&fs, &name)
        })
        .await
    }

    /// Takes away what is still staged under `tag`.
    pub async fn unstage(&self, tag: &str) -> Result<()> {
        let tag = check_tag(tag)?;
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            drop_dir(&fs, tree::STAGING, &tag).map_err(StorageError::at("unstage", &pool.mount))
        })
        .await
    }
}

fn adopt(fs: &Fs, tag: &Label, name: &Label, replace: bool) -> Result<()> {
    let failed = || volumes::at("adopt", name);
    let existing = match volumes::open(fs, name) {
        Err(StorageError::NoVolume { .. }) => None,
        other => Some(other?),
    };
    let dir = tree::open_dir(&fs.root, &format!("{}/{}", tree::STAGING, tag.as_str()));
    if let Some(existing) = &existing
        && VolumeRecord::read(existing, name).is_ok_and(|record| record.adopted == tag.as_str())
    {
        // Done before; what is left is what was there once.
        return match dir {
            Ok(dir) => tree::clear(dir.as_fd(), name.as_str()).map_err(failed()),
            Err(_) => Ok(()),
        };
    }
    let staged = dir
        .and_then(|dir| Ok((tree::open_dir(&dir, name.as_str())?, dir)))
        .map_err(|_| StorageError::NotStaged {
            tag: tag.as_str().into(),
            name: name.as_str().into(),
        });
    let (staged, dir) = staged?;
    let mut record = VolumeRecord::read(&staged, name)?;
    check_content(&staged, &record, name)?;
    if existing.is_some() && !replace {
        return Err(StorageError::VolumeExists {
            name: name.as_str().into(),
            how: "it was not to be replaced".into(),
        });
    }
    record.adopted = tag.as_str().into();
    record.write(&staged).map_err(failed())?;
    volumes::limit(&staged, &record).map_err(failed())?;
    fs.sync().map_err(failed())?;
    let all = tree::open_dir(&fs.root, tree::VOLUMES).map_err(failed())?;
    if existing.is_some() {
        let before = format!("before-{}", tag.as_str());
        let before = Label::from_field("tag", &before)
            .map_err(|error| StorageError::invalid("tag", error.message()))?;
        snapshots::take(fs, name, &before)?;
        let name = name.as_str();
        renameat_with(&dir, name, &all, name, RenameFlags::EXCHANGE).map_err(failed())?;
        fs.sync().map_err(failed())?;
        return tree::clear(dir.as_fd(), name).map_err(failed());
    }
    tree::rename(&dir, name.as_str(), &all, name.as_str()).map_err(failed())?;
    fs.sync().map_err(failed())
}

/// A backup may hold anything; a volume holds a directory or a file.
fn check_content(staged: &OwnedFd, record: &VolumeRecord, name: &Label) -> Result<()> {
    let (path, wanted) = match record.kind {
        VolumeKind::Files => (volumes::DATA, FileType::Directory),
        VolumeKind::Disk => (volumes::DISK, FileType::RegularFile),
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let found = tree::open(staged, path, flags, rustix::fs::Mode::empty())
        .and_then(fstat)
        .map(|stat| FileType::from_raw_mode(stat.st_mode));
    if found != Ok(wanted) {
        return Err(StorageError::VolumeRecord {
            volume: name.as_str().into(),
        });
    }
    Ok(())
}
