//! The root of a nested node: the host's own root below, memory
//! above. Its programs are the host's, so there is nothing to install; what it
//! changes stays inside, and is gone when it is switched off.
//!
//! The upper layer is prepared before the overlay is made of it: directories that
//! are the host's alone are hidden by being opaque there, and files are simply
//! laid over those of the host, whatever links these were.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::mount::MountAttrFlags;

use crate::overlay::{Overlay, Place};
use crate::tmpfs::{Owner, TmpfsOptions, make};
use crate::{RootError, private};

/// What the root of a machine is made of.
#[derive(Clone, Copy, Debug)]
pub struct HostRoot<'a> {
    /// The root that is seen below; what is mounted in it is not.
    pub lower: &'a Path,
    /// How much may be changed.
    pub bytes: u64,
    /// Directories that are seen empty, where the root below has them.
    pub hidden: &'a [PathBuf],
    /// Files that it has of its own, and what is in them.
    pub files: &'a [(String, String)],
    /// Links that it has of its own, and where they lead.
    pub links: &'a [(&'a str, &'a str)],
    /// An empty directory that kernels before 6.15 need to stand on.
    pub place: &'a Path,
}

impl HostRoot<'_> {
    /// Makes the root. It is detached: the returned descriptor's alone.
    pub fn mount(&self) -> Result<OwnedFd, RootError> {
        let options = TmpfsOptions {
            bytes: self.bytes,
            mode: 0o755,
            owner: Owner::default(),
            no_exec: false,
        };
        let memory = make(options, MountAttrFlags::empty())?;
        let top = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        let upper = top.join("upper");
        dir(&upper, 0o755)?;
        dir(&top.join("work"), 0o755)?;
        self.prepare(&upper)?;
        let overlay = Overlay {
            lowers: vec![Place::Directory(self.lower.to_owned())],
            upper: Some(Place::Detached(memory)),
            mapped: None,
            attributes: MountAttrFlags::empty(),
            creator: None,
        };
        match overlay.mount() {
            Err(RootError::Mount { source, .. })
                if source.kind() == io::ErrorKind::InvalidInput =>
            {
                private::mount_overlay(&overlay, self.place)
            }
            made => made,
        }
    }

    fn prepare(&self, upper: &Path) -> Result<(), RootError> {
        for path in self.hidden {
            if self.is_directory(path) {
                let above = self.dirs_to(upper, path)?;
                hide(&above)?;
            }
        }
        for (path, text) in self.files {
            let file = self.place_for(upper, path)?;
            fs::write(&file, text)
                .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o644)))
                .map_err(RootError::at("write", &file))?;
        }
        for (path, target) in self.links {
            let link = self.place_for(upper, path)?;
            std::os::unix::fs::symlink(target, &link)
                .map_err(RootError::at("make the link", &link))?;
        }
        Ok(())
    }

    /// Whether this is a directory of the root below, reached without links.
    fn is_directory(&self, path: &Path) -> bool {
        let mut below = self.lower.to_owned();
        names(path).all(|name| {
            below.push(name);
            fs::symlink_metadata(&below).is_ok_and(|metadata| metadata.is_dir())
        })
    }

    fn place_for(&self, upper: &Path, path: &str) -> Result<PathBuf, RootError> {
        let path = Path::new(path);
        let parent = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default();
        Ok(self.dirs_to(upper, parent)?.join(name))
    }

    /// Makes a directory of the upper layer and those above it, like those below.
    fn dirs_to(&self, upper: &Path, path: &Path) -> Result<PathBuf, RootError> {
        let (mut above, mut below) = (upper.to_owned(), self.lower.to_owned());
        for name in names(path) {
            above.push(name);
            below.push(name);
            if above.is_dir() {
                continue;
            }
            let (mode, uid, gid) = match fs::symlink_metadata(&below) {
                Ok(like) if like.is_dir() => (like.mode(), like.uid(), like.gid()),
                _ => (0o755, 0, 0),
            };
            dir(&above, mode & 0o7777)?;
            std::os::unix::fs::chown(&above, Some(uid), Some(gid))
                .map_err(RootError::at("give away", &above))?;
        }
        Ok(above)
    }
}

/// The names along a path. One that goes up leads nowhere.
fn names(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

fn dir(path: &Path, mode: u32) -> Result<(), RootError> {
    fs::DirBuilder::new()
        .mode(mode)
        .create(path)
        // The umask of the process may have taken bits away.
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(RootError::at("make", path))
}

/// Nothing of what is below is seen here.
fn hide(dir: &Path) -> Result<(), RootError> {
    rustix::fs::lsetxattr(dir, "trusted.overlay.opaque", b"y", XattrFlags::empty())
        .map_err(RootError::at("hide what is below", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(root: &OwnedFd) -> PathBuf {
        format!("/proc/self/fd/{}", root.as_raw_fd()).into()
    }

    #[test]
    fn changes_to_the_host_root_stay_inside() {
        let lower = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("bin/sh", "sh"),
            ("root/secret", "s"),
            ("etc/hosts", "host"),
        ] {
            let path = lower.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("/run/nothing", lower.path().join("etc/resolv.conf")).unwrap();
        let root = HostRoot {
            lower: lower.path(),
            bytes: 1 << 20,
            hidden: &["/root".into(), "/srv/data".into()],
            files: &[
                ("/etc/hosts".into(), "mine".into()),
                ("/etc/resolv.conf".into(), "mine too".into()),
                ("/new/file".into(), "new".into()),
            ],
            links: &[("/bin/other", "/bin/sh")],
            place: place.path(),
        };
        let root = root.mount().unwrap();
        let inside = mounted(&root);
        let read = |path: &str| fs::read_to_string(inside.join(path)).unwrap();
        assert_eq!(read("bin/sh"), "sh");
        assert_eq!(read("etc/hosts"), "mine");
        assert_eq!(read("etc/resolv.conf"), "mine too");
        assert_eq!(read("new/file"), "new");
        assert_eq!(fs::read_dir(inside.join("root")).unwrap().count(), 0);
        assert!(!inside.join("srv").exists());
        let link = fs::read_link(inside.join("bin/other")).unwrap();
        assert_eq!(link, Path::new("/bin/sh"));

        fs::write(inside.join("bin/sh"), "changed").unwrap();
        fs::remove_file(inside.join("etc/hosts")).unwrap();
        assert_eq!(
            fs::read_to_string(lower.path().join("bin/sh")).unwrap(),
            "sh"
        );
        assert!(lower.path().join("etc/hosts").exists());
        let too_much = fs::write(inside.join("large"), vec![1; 2 << 20]);
        assert_eq!(too_much.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
