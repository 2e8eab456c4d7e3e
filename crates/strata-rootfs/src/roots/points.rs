//! Mount points that an image lacks. Many images have nothing but a program,
//! and a read-only root cannot be given a directory later. So they are a layer
//! of their own, below those of the image: whatever the image has there wins.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::Roots;
use crate::RootError;

/// A place where something will be mounted.
#[derive(Clone, Copy, Debug)]
pub struct MountPoint<'a> {
    /// Absolute, as seen in the pod.
    pub path: &'a Path,
    /// A file is mounted there, not a directory.
    pub file: bool,
}

const POINTS: &str = "points";
const USUAL: [(&str, bool); 6] = [
    ("/proc", false),
    ("/sys", false),
    ("/dev", false),
    ("/etc/hosts", true),
    ("/etc/hostname", true),
    ("/etc/resolv.conf", true),
];

/// What programs expect that look for what is mounted: a name, and where it
/// leads to in a pod.
const MOUNT_TABLE: (&str, &str) = ("etc/mtab", "/proc/mounts");

/// Fills the lowest layer of all roots.
pub(super) fn make_base(dir: &Path) -> Result<(), RootError> {
    for (path, file) in USUAL {
        let path = Path::new(path);
        make(dir, MountPoint { path, file })?;
    }
    let (name, target) = MOUNT_TABLE;
    let link = dir.join(name);
    match std::os::unix::fs::symlink(target, &link) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.map_err(RootError::at("make", &link))?,
    }
    open_up(dir, 0o755)
}

impl Roots {
    pub(super) fn make_points(
        &self,
        id: &str,
        points: &[MountPoint<'_>],
    ) -> Result<PathBuf, RootError> {
        let dir = self.root_dir(id).join(POINTS);
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(RootError::NotFound { id: id.into() });
            }
            other => other.map_err(RootError::at("make", &dir))?,
        }
        open_up(&dir, 0o755)?;
        for point in points {
            make(&dir, *point)?;
        }
        Ok(dir)
    }
}

fn make(layer: &Path, point: MountPoint<'_>) -> Result<(), RootError> {
    let bad = || RootError::BadMountPoint {
        path: point.path.to_owned(),
    };
    let mut parts = point.path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(bad());
    }
    // Only the daemon writes in this layer, so there are no links to follow.
    let mut path = layer.to_owned();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(bad());
        };
        path.push(name);
        let (made, mode) = if point.file && parts.peek().is_none() {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            (file.map(drop), 0o644)
        } else {
            (DirBuilder::new().recursive(true).create(&path), 0o755)
        };
        made.map_err(RootError::at("make", &path))?;
        open_up(&path, mode)?;
    }
    Ok(())
}

/// The umask of the process may have taken bits away.
fn open_up(path: &Path, mode: u32) -> Result<(), RootError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(RootError::at("open up", path))
}
