//! The same overlay on kernels whose overlay does not take single layers
//! (before 6.7) or detached ones (before 6.15): a thread with a mount namespace
//! of its own mounts it there the old way and takes a detached clone with it.
//! The namespace ends with the thread, and no other process ever sees it.
//!
//! The old way has one page for all its settings. Layers are named by the
//! numbers of their descriptors, relative to `/proc/self/fd`, so hundreds fit.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkdirat};
use rustix::mount::{
    MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, mount, mount_change,
    move_mount,
};

use crate::RootError;
use crate::attributes::clone_path;
use crate::creator::{become_owner, keep_dumpable, on_thread};
use crate::overlay::{Overlay, Place, SETTINGS, WRITABLE, open_dir};
use crate::sys;
use crate::tmpfs::{Owner, TmpfsOptions, tmpfs};

/// Makes the overlay; `place` is an empty directory to mount things on, in the
/// namespace of the thread only.
pub(crate) fn mount_overlay(overlay: &Overlay, place: &Path) -> Result<OwnedFd, RootError> {
    keep_dumpable(|| on_thread(|| in_own_namespace(overlay, place)))
}

fn in_own_namespace(overlay: &Overlay, place: &Path) -> Result<OwnedFd, RootError> {
    sys::unshare_mounts().map_err(failed("get a mount namespace"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed("make the namespace private"))?;
    let ground = tmpfs(TmpfsOptions {
        bytes: 1 << 20,
        mode: 0o700,
        owner: Owner::default(),
        no_exec: true,
    })?;
    attach(&ground, place)?;

    let mapped = place.join("mapped");
    if let Some(mount) = &overlay.mapped {
        dir(&mapped)?;
        attach(mount, &mapped)?;
    }
    let mut held = Vec::with_capacity(overlay.lowers.len() + 1);
    for layer in &overlay.lowers {
        held.push(enter(layer, place, held.len())?);
    }
    let upper = match &overlay.upper {
        Some(upper) => Some(enter(upper, place, held.len())?),
        None => None,
    };
    let root = place.join("root");
    dir(&root)?;
    // Relative names below start here.
    rustix::process::chdir("/proc/self/fd").map_err(failed("go to /proc/self/fd"))?;
    let mut flags = MountFlags::empty();
    for (attribute, flag) in [
        (MountAttrFlags::MOUNT_ATTR_RDONLY, MountFlags::RDONLY),
        (MountAttrFlags::MOUNT_ATTR_NODEV, MountFlags::NODEV),
    ] {
        if overlay.attributes.contains(attribute) {
            flags |= flag;
        }
    }
    let settings = settings(&held, upper.as_ref());
    if let Some(owner) = overlay.creator {
        become_owner(owner)?;
    }
    mount(c"strata", &root, c"overlay", flags, settings.as_c_str()).map_err(failed("mount"))?;
    clone_path(&root, false)
}

fn settings(lowers: &[OwnedFd], upper: Option<&OwnedFd>) -> CString {
    let names: Vec<String> = lowers
        .iter()
        .rev()
        .map(|fd| fd.as_raw_fd().to_string())
        .collect();
    let mut text = format!("lowerdir={}", names.join(":"));
    if let Some(fd) = upper {
        let fd = fd.as_raw_fd();
        let (key, value) = WRITABLE;
        text += &format!(",upperdir={fd}/upper,workdir={fd}/work,{key}={value}");
    }
    for (key, value) in SETTINGS {
        text += &format!(",{key}={value}");
    }
    CString::new(text).unwrap_or_default()
}

/// A layer as the new namespace sees it: an overlay takes no others.
fn enter(layer: &Place, place: &Path, number: usize) -> Result<OwnedFd, RootError> {
    match layer {
        Place::Directory(path) => open_dir(CWD, path),
        Place::Mapped(path) => open_dir(CWD, &place.join("mapped").join(path)),
        Place::Detached(mount) => {
            let target = place.join(number.to_string());
            dir(&target)?;
            attach(mount, &target)?;
            open_dir(CWD, &target)
        }
    }
}

fn dir(path: &Path) -> Result<(), RootError> {
    mkdirat(CWD, path, Mode::from_raw_mode(0o700)).map_err(RootError::at("make", path))
}

fn attach(mount: &OwnedFd, target: &Path) -> Result<(), RootError> {
    move_mount(
        mount,
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(RootError::at("mount on", target))
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> RootError {
    move |errno| RootError::Mount {
        kind: "overlay",
        what: what.into(),
        kernel: String::new(),
        source: errno.into(),
    }
}
