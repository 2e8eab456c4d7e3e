//! Volumes: a directory or a file of the host, to be seen inside a pod.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::MountAttrFlags;

use crate::RootError;
use crate::attributes::{change, clone_fd, clone_path};

/// How a volume is seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct BindOptions<'a> {
    /// Nothing can be written through it.
    pub read_only: bool,
    /// With everything that is mounted below it; otherwise those places are
    /// seen as the directories they cover.
    pub recursive: bool,
    /// Set-user-id and file capabilities mean nothing.
    pub no_suid: bool,
    /// Device nodes cannot be opened.
    pub no_dev: bool,
    /// Nothing can be executed.
    pub no_exec: bool,
    /// A user namespace: its uid 0 is stored as uid 0, and so on. The file
    /// system must support it: ext4, xfs and btrfs do from 5.15 on, tmpfs
    /// from 6.3 on.
    pub id_map: Option<BorrowedFd<'a>>,
}

impl BindOptions<'_> {
    fn attributes(&self) -> MountAttrFlags {
        let wanted = [
            (self.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
            (self.no_suid, MountAttrFlags::MOUNT_ATTR_NOSUID),
            (self.no_dev, MountAttrFlags::MOUNT_ATTR_NODEV),
            (self.no_exec, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        ];
        wanted
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, flag)| flag)
            .collect()
    }
}

/// A detached mount of a directory or file. A link at the end of the path is
/// followed; for a path that a pod could change, open it with care and use
/// [`bind_fd`].
pub fn bind(path: &Path, options: BindOptions<'_>) -> Result<OwnedFd, RootError> {
    let mount = clone_path(path, options.recursive)?;
    finish(mount, options)
}

/// A detached mount of the directory or file that is open here (`O_PATH` will do).
pub fn bind_fd(file: BorrowedFd<'_>, options: BindOptions<'_>) -> Result<OwnedFd, RootError> {
    let mount = clone_fd(file, options.recursive)?;
    finish(mount, options)
}

pub(crate) fn finish(mount: OwnedFd, options: BindOptions<'_>) -> Result<OwnedFd, RootError> {
    change(
        &mount,
        options.recursive,
        options.attributes(),
        options.id_map,
    )?;
    Ok(mount)
}
