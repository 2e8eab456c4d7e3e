//! `/dev` and `/dev/pts` of a pod: its own, so what it makes or breaks there
//! affects no other pod.
//!
//! The nodes are created for every pod. That is some twenty calls and takes
//! less than one mount does; anything shared and copied would take more.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Uid, chmodat, chownat, makedev, mkdirat, mknodat, symlinkat,
};
use rustix::mount::MountAttrFlags;

use crate::RootError;
use crate::context::FsContext;
use crate::tmpfs::{Owner, TmpfsOptions, make};

/// The devices that every program may expect.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];
/// Those of them that an emulator may expect.
const EMULATOR_NODES: [&str; 3] = ["null", "zero", "urandom"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Mount points, for the pod's init.
const DIRS: [&str; 3] = ["pts", "shm", "mqueue"];
/// Room for sockets and pipes a program makes there, not for data.
const BYTES: u64 = 1 << 20;
/// The group of terminals, everywhere.
const TTY_GROUP: u32 = 5;

/// The `/dev` of a pod, detached: the usual devices, open to all users of the
/// pod; directories to mount `pts`, `shm` and `mqueue` on. Set-user-id and
/// execution mean nothing there.
///
/// No `/dev/core`: it would lead to the memory of the host.
pub fn devices(owner: Owner) -> Result<OwnedFd, RootError> {
    let options = TmpfsOptions {
        bytes: BYTES,
        mode: 0o755,
        owner,
        no_exec: true,
    };
    let mount = make(
        options,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    for (name, major, minor) in NODES {
        node(&mount, name, makedev(major, minor), 0o666, owner)?;
    }
    for (name, target) in LINKS {
        symlinkat(target, &mount, name).map_err(RootError::at("make the link", Path::new(name)))?;
        give(&mount, name, owner)?;
    }
    for name in DIRS {
        mkdirat(&mount, name, mode(0o755))
            .map_err(RootError::at("make the directory", Path::new(name)))?;
        give(&mount, name, owner)?;
    }
    Ok(mount)
}

/// Makes `/dev/console` in such a `/dev`: the first terminal of the pod, which is
/// that of its main process. A link, since a terminal has a path only once the
/// pod's `/dev/pts` is in its place.
pub fn console(devices: &OwnedFd, owner: Owner) -> Result<(), RootError> {
    symlinkat("pts/0", devices, "console")
        .map_err(RootError::at("make the link", Path::new("console")))?;
    give(devices, "console", owner)
}

/// The `/dev` of an emulator, detached: `null`, `zero` and `urandom`, and with
/// `kvm`, which is the number of that device, `kvm`, for its user alone. The
/// directory is root's and nothing can be made in it.
pub fn emulator_devices(kvm: Option<u64>, user: Owner) -> Result<OwnedFd, RootError> {
    let root = Owner::default();
    let options = TmpfsOptions {
        bytes: BYTES,
        mode: 0o755,
        owner: root,
        no_exec: true,
    };
    let mount = make(
        options,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    for (name, major, minor) in NODES {
        if EMULATOR_NODES.contains(&name) {
            node(&mount, name, makedev(major, minor), 0o666, root)?;
        }
    }
    if let Some(kvm) = kvm {
        node(&mount, "kvm", kvm, 0o600, user)?;
    }
    Ok(mount)
}

fn node(
    mount: &OwnedFd,
    name: &str,
    device: u64,
    bits: u32,
    owner: Owner,
) -> Result<(), RootError> {
    mknodat(mount, name, FileType::CharacterDevice, mode(bits), device)
        // The umask of the process may have taken bits away.
        .and_then(|()| chmodat(mount, name, mode(bits), AtFlags::empty()))
        .map_err(RootError::at("make the device", Path::new(name)))?;
    give(mount, name, owner)
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

fn give(mount: &OwnedFd, name: &str, owner: Owner) -> Result<(), RootError> {
    if owner == Owner::default() {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    chownat(mount, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(RootError::at("give away", Path::new(name)))
}

/// The `/dev/pts` of a pod, detached: an instance of its own, so terminals of
/// other pods and of the host are out of reach.
pub fn devpts(owner: Owner) -> Result<OwnedFd, RootError> {
    let context = FsContext::open("devpts")?;
    context
        .string("gid", &owner.gid.saturating_add(TTY_GROUP).to_string())?
        .string("mode", "620")?
        .string("ptmxmode", "666")?;
    context.mount(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}
