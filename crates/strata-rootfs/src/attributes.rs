//! Detached clones of what is mounted already, and what is changed on them:
//! read-only, without set-user-id, seen through the ids of a user namespace.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use crate::RootError;
use crate::sys::{self, MOUNT_ATTR_IDMAP, MS_PRIVATE, MountAttr};

/// A detached clone of the tree at this path.
pub(crate) fn clone_path(path: &Path, recursive: bool) -> Result<OwnedFd, RootError> {
    open_tree(CWD, path, clone_flags(recursive)).map_err(RootError::at("clone the mount at", path))
}

/// A detached clone of what this descriptor has open.
pub(crate) fn clone_fd(file: BorrowedFd<'_>, recursive: bool) -> Result<OwnedFd, RootError> {
    let flags = clone_flags(recursive) | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(file, "", flags).map_err(|errno| RootError::Mount {
        kind: "bind",
        what: "clone an open file".into(),
        kernel: String::new(),
        source: errno.into(),
    })
}

fn clone_flags(recursive: bool) -> OpenTreeFlags {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags | OpenTreeFlags::AT_RECURSIVE
    } else {
        flags
    }
}

/// Sets attributes on a detached mount and cuts it off from the mounts that
/// it was cloned from: nothing mounted there later appears in it.
pub(crate) fn change(
    mount: &OwnedFd,
    recursive: bool,
    set: MountAttrFlags,
    id_map: Option<BorrowedFd<'_>>,
) -> Result<(), RootError> {
    let mut attributes = MountAttr {
        set: u64::from(set.bits()),
        propagation: MS_PRIVATE,
        ..MountAttr::default()
    };
    if let Some(namespace) = id_map {
        attributes.set |= MOUNT_ATTR_IDMAP;
        attributes.userns_fd = u64::try_from(namespace.as_raw_fd()).unwrap_or(u64::MAX);
    }
    sys::mount_setattr(mount.as_fd(), recursive, &attributes).map_err(|errno| RootError::Mount {
        kind: "bind",
        what: match id_map {
            Some(_) => {
                "map the ids of a user namespace (its file system may not be able to)".into()
            }
            None => "set attributes".into(),
        },
        kernel: String::new(),
        source: errno.into(),
    })
}
