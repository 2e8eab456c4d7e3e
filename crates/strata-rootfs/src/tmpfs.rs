//! File systems in memory, detached: what a pod writes there counts against
//! its memory and is gone with it.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat};
use rustix::mount::MountAttrFlags;

use crate::RootError;
use crate::attributes::change;
use crate::context::FsContext;

/// The owner of what is made for a pod: the ids, on the host, of root in the
/// pod. Without a user namespace that is 0 and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user id on the host.
    pub uid: u32,
    /// The group id on the host.
    pub gid: u32,
}

/// What a file system in memory is like.
#[derive(Clone, Copy, Debug)]
pub struct TmpfsOptions {
    /// How much it holds.
    pub bytes: u64,
    /// The mode of its top directory.
    pub mode: u32,
    /// The owner of its top directory.
    pub owner: Owner,
    /// Nothing in it can be executed.
    pub no_exec: bool,
}

/// One file per so many bytes: enough for files of a page, and a bound for
/// empty ones, which a limit on bytes does not see.
const BYTES_PER_FILE: u64 = 4096;
/// Small file systems hold at least so many files.
const MIN_FILES: u64 = 1024;

/// A detached file system in memory, without set-user-id and devices.
pub fn tmpfs(options: TmpfsOptions) -> Result<OwnedFd, RootError> {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if options.no_exec {
        attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    make(options, attributes)
}

/// The `/dev/shm` of a pod, open to all users in it.
pub fn shm(bytes: u64, owner: Owner) -> Result<OwnedFd, RootError> {
    tmpfs(TmpfsOptions {
        bytes,
        mode: 0o1777,
        owner,
        no_exec: true,
    })
}

/// Empty directories to mount on, which no process can change.
pub fn places<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<OwnedFd, RootError> {
    let options = TmpfsOptions {
        bytes: 4096,
        mode: 0o755,
        owner: Owner::default(),
        no_exec: true,
    };
    let mount = tmpfs(options)?;
    for name in names {
        let made = mkdirat(&mount, name, Mode::from_raw_mode(0o555));
        made.map_err(|errno| RootError::io("make", name, errno))?;
    }
    change(&mount, false, MountAttrFlags::MOUNT_ATTR_RDONLY, None)?;
    Ok(mount)
}

/// A file system that holds one executable file and that no process can change.
pub fn program(name: &str, bytes: &[u8]) -> Result<OwnedFd, RootError> {
    let options = TmpfsOptions {
        bytes: (bytes.len() as u64).next_multiple_of(4096),
        mode: 0o755,
        owner: Owner::default(),
        no_exec: false,
    };
    let mount = tmpfs(options)?;
    let failed = |errno| RootError::io("write", name, errno);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o755);
    let file = openat(&mount, name, flags, mode).map_err(failed)?;
    // The umask of the process may have taken bits away.
    fchmod(&file, mode).map_err(failed)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(failed)?;
        rest = &rest[written..];
    }
    drop(file);
    change(&mount, false, MountAttrFlags::MOUNT_ATTR_RDONLY, None)?;
    Ok(mount)
}

pub(crate) fn make(
    options: TmpfsOptions,
    attributes: MountAttrFlags,
) -> Result<OwnedFd, RootError> {
    let files = (options.bytes / BYTES_PER_FILE).max(MIN_FILES);
    let context = FsContext::open("tmpfs")?;
    context
        .string("size", &options.bytes.to_string())?
        .string("nr_inodes", &files.to_string())?
        .string("mode", &format!("{:o}", options.mode))?;
    let Owner { uid, gid } = options.owner;
    if options.owner != Owner::default() {
        context
            .string("uid", &uid.to_string())?
            .string("gid", &gid.to_string())?;
    }
    context.mount(attributes)
}
