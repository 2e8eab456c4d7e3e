//! All directories of a root seen through a user namespace, by one mount. Each
//! detached mount costs the kernel a wait for all processors when it goes, so
//! a hundred layers are not a hundred mounts: one clone of the directory that
//! they all lie under serves them all.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};
use rustix::mount::MountAttrFlags;

use crate::RootError;
use crate::attributes::{change, clone_path};

/// A detached clone of `top`, seen through a user namespace.
pub(crate) struct Mapped {
    pub(crate) mount: OwnedFd,
    top: PathBuf,
}

impl Mapped {
    /// Maps what lies above all of these directories.
    pub(crate) fn above<'a>(
        dirs: impl IntoIterator<Item = &'a Path>,
        namespace: BorrowedFd<'_>,
    ) -> Result<Self, RootError> {
        let top = common(dirs).unwrap_or_else(|| PathBuf::from("/"));
        let mount = map(&top, namespace)?;
        Ok(Self { mount, top })
    }

    /// Where a directory is below the clone; none if it is not there, which is
    /// so when another mount or a link lies between.
    pub(crate) fn find(&self, dir: &Path) -> Option<PathBuf> {
        let below = dir.strip_prefix(&self.top).ok()?;
        let real = statat(CWD, dir, AtFlags::empty()).ok()?;
        let name = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        let seen = statat(&self.mount, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let same = (real.st_dev, real.st_ino) == (seen.st_dev, seen.st_ino);
        // A link on the way could lead out of the clone, to the same directory
        // without its mapping: then its owner would be seen as it is.
        (same && real.st_uid != seen.st_uid).then(|| name.to_owned())
    }
}

/// A detached clone of one directory, seen through a user namespace.
pub(crate) fn map(dir: &Path, namespace: BorrowedFd<'_>) -> Result<OwnedFd, RootError> {
    let mount = clone_path(dir, false)?;
    change(&mount, false, MountAttrFlags::empty(), Some(namespace))?;
    Ok(mount)
}

fn common<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Option<PathBuf> {
    let mut dirs = dirs.into_iter();
    let mut top = dirs.next()?.to_owned();
    for dir in dirs {
        while !dir.starts_with(&top) {
            if !top.pop() {
                return None;
            }
        }
    }
    Some(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_directory_is_the_nearest() {
        let common = |paths: &[&str]| common(paths.iter().map(Path::new));
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            common(&["/d/roots/pod", "/d/layers/a", "/d/layers/b"]),
            is("/d")
        );
        assert_eq!(common(&["/d/layers/ab", "/d/layers/a"]), is("/d/layers"));
        assert_eq!(common(&["/d", "/d/layers"]), is("/d"));
        assert_eq!(common(&["/a/b", "/c"]), is("/"));
        assert_eq!(common(&[]), None);
    }
}
