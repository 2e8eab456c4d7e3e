//! One file or directory of a volume is brought back: written beside the
//! volume's data, on the same subvolume, and moved into it in one step. What is
//! in a volume was written by untrusted parties, so its directories are walked
//! by the kernel, which follows no link there.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::PoisonError;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use strata_types::Label;

use super::freeze::check_tag;
use super::{StoragePool, tree, volumes};
use crate::btrfs::Fs;
use crate::{Result, StorageError};

/// What is being brought back, until it is in its place.
const RESTORED: &str = "restored";

fn dir(tag: &Label) -> String {
    format!("restoring-{tag}")
}

impl StoragePool {
    /// A place on the volume to write a file or directory to, where nothing is
    /// yet. Whatever was written there before under `tag` is gone.
    pub async fn stage_file(&self, tag: &str, volume: &Label) -> Result<PathBuf> {
        let (tag, volume) = (check_tag(tag)?, volume.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let opened = volumes::open(&pool.fs()?, &volume)?;
            let failed = || volumes::at("restore into", &volume);
            tree::clear(opened.as_fd(), &dir(&tag)).map_err(failed())?;
            tree::make_dir(&opened, &dir(&tag), 0o700).map_err(failed())?;
            let path = pool.mount.join(tree::VOLUMES).join(volume.as_str());
            Ok(path.join(dir(&tag)).join(RESTORED))
        })
        .await
    }

    /// Moves what was written there to its path in the volume. With `replace`,
    /// what is there stays beside it as `NAME.before-TAG`; without, that is an
    /// error. Repeated after it is done, it does nothing.
    pub async fn place_file(
        &self,
        tag: &str,
        volume: &Label,
        path: &str,
        replace: bool,
    ) -> Result<()> {
        let (tag, volume, path) = (check_tag(tag)?, volume.clone(), path.to_owned());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            place(&pool.fs()?, &tag, &volume, &path, replace)
        })
        .await
    }

    /// Takes away what is still there under `tag`.
    pub async fn unstage_file(&self, tag: &str, volume: &Label) -> Result<()> {
        let (tag, volume) = (check_tag(tag)?, volume.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            match volumes::open(&pool.fs()?, &volume) {
                Err(StorageError::NoVolume { .. }) => Ok(()),
                opened => tree::clear(opened?.as_fd(), &dir(&tag))
                    .map_err(volumes::at("clear up", &volume)),
            }
        })
        .await
    }

    /// Takes away one volume that is staged under `tag`.
    pub async fn unstage_volume(&self, tag: &str, name: &Label) -> Result<()> {
        let (tag, name) = (check_tag(tag)?, name.clone());
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            let staged = format!("{}/{tag}", tree::STAGING);
            match tree::open_dir(&fs.root, &staged) {
                Err(_) => Ok(()),
                Ok(staged) => tree::clear(staged.as_fd(), name.as_str())
                    .map_err(volumes::at("unstage", &name)),
            }
        })
        .await
    }
}

/// The names that lead to a file; a path that could lead elsewhere is refused.
fn names(path: &str) -> Result<Vec<&str>> {
    let names: Vec<&str> = path.trim_matches('/').split('/').collect();
    let plain = |name: &&str| !name.is_empty() && *name != "." && *name != "..";
    if !names.iter().all(plain) || path.contains('\0') {
        let shown: String = path.chars().take(80).collect();
        let why = format!("{shown:?} is not a path from the root of the volume");
        return Err(StorageError::invalid("path", why));
    }
    Ok(names)
}

fn is_there(dir: &OwnedFd, name: &str) -> Result<bool, Errno> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn place(fs: &Fs, tag: &Label, volume: &Label, path: &str, replace: bool) -> Result<()> {
    let failed = || volumes::at("restore into", volume);
    let names = names(path)?;
    let Some((last, above)) = names.split_last() else {
        return Err(StorageError::invalid("path", "is empty"));
    };
    let opened = volumes::open(fs, volume)?;
    let mut parent = tree::open_dir(&opened, volumes::DATA).map_err(failed())?;
    for name in above {
        parent = tree::make_dir(&parent, name, 0o755).map_err(failed())?;
    }
    let staged = tree::open_dir(&opened, &dir(tag));
    let waits = match &staged {
        Ok(staged) => is_there(staged, RESTORED).map_err(failed())?,
        Err(_) => false,
    };
    let (true, Ok(staged)) = (waits, staged) else {
        // Done before.
        return match is_there(&parent, last).map_err(failed())? {
            true => Ok(()),
            false => Err(StorageError::NotStaged {
                tag: tag.as_str().into(),
                name: volume.as_str().into(),
            }),
        };
    };
    if is_there(&parent, last).map_err(failed())? {
        if !replace {
            return Err(StorageError::invalid(
                "path",
                format!(
                    "{path} is there: use replace, which keeps it beside as {last}.before-{tag}"
                ),
            ));
        }
        let before = format!("{last}.before-{tag}");
        tree::rename(&parent, last, &parent, &before).map_err(failed())?;
    }
    tree::rename(&staged, RESTORED, &parent, last).map_err(failed())?;
    tree::clear(opened.as_fd(), &dir(tag)).map_err(failed())?;
    fs.sync().map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_stays_in_its_volume() {
        assert_eq!(names("/a/b").unwrap(), ["a", "b"]);
        for bad in ["", "/", "..", "a/../b", "a//b", "./a", "a/\0"] {
            assert!(names(bad).is_err(), "{bad:?}");
        }
    }
}
