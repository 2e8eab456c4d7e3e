//! One overlay, detached: shared layers below, a pod's own writable one above.
//!
//! What is set, and why:
//! - `redirect_dir=on`: a directory of the image can be renamed, as on any file
//!   system; without it `rename` fails with `EXDEV`. Layers cannot misuse it:
//!   the unpacker refuses the attributes that steer an overlay.
//! - `metacopy=off`: the writable layer has whole files, so a changed mode
//!   never depends on a layer below.
//! - `index=off`: hard links of an image break apart when written, as in every
//!   other runtime; in return layers may be moved, and the same ones be shared.
//! - `xino=auto`: inode numbers stay the same when a file is first written,
//!   also where the writable layer is another file system.
//! - Not `volatile`: when a program in a pod syncs its data, the disk has it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::context::{FsContext, MAX_VALUE};
use crate::creator::as_owner;
use crate::{Owner, RootError};

/// An overlay takes 500 lower layers; one of them is ours.
pub(crate) const MAX_LAYERS: usize = 499;

/// Settings of every overlay.
pub(crate) const SETTINGS: [(&str, &str); 3] =
    [("index", "off"), ("metacopy", "off"), ("xino", "auto")];
/// Setting of an overlay with a writable layer.
pub(crate) const WRITABLE: (&str, &str) = ("redirect_dir", "on");

/// Where a layer is.
pub(crate) enum Place {
    Directory(PathBuf),
    /// The top of a detached mount.
    Detached(OwnedFd),
    /// A directory of the overlay's mapped mount.
    Mapped(PathBuf),
}

pub(crate) struct Overlay {
    /// The lowest first.
    pub(crate) lowers: Vec<Place>,
    /// Has the directories `upper` and `work`.
    pub(crate) upper: Option<Place>,
    /// What mapped places are below.
    pub(crate) mapped: Option<OwnedFd>,
    pub(crate) attributes: MountAttrFlags,
    /// The user that creates it, if not our own.
    pub(crate) creator: Option<Owner>,
}

impl Overlay {
    /// Makes it with the new mount calls alone. Layers in directories need Linux
    /// 6.7, detached ones 6.15.
    pub(crate) fn mount(&self) -> Result<OwnedFd, RootError> {
        let context = FsContext::open("overlay")?;
        // What the pod's mount table shows as the device.
        context.string("source", "strata")?;
        // Layers are resolved when they are named: their descriptors need
        // not stay open.
        for lower in self.lowers.iter().rev() {
            context.string("lowerdir+", &self.name(lower)?.below(""))?;
        }
        if let Some(upper) = &self.upper {
            let name = self.name(upper)?;
            context
                .string("upperdir", &name.below("/upper"))?
                .string("workdir", &name.below("/work"))?
                .string(WRITABLE.0, WRITABLE.1)?;
        }
        for (key, value) in SETTINGS {
            context.string(key, value)?;
        }
        as_owner(self.creator, || context.mount(self.attributes))
    }

    fn name<'a>(&self, place: &'a Place) -> Result<Name<'a>, RootError> {
        let fits = |path: &'a Path| path.to_str().filter(|name| name.len() <= MAX_PATH);
        match (place, &self.mapped) {
            (Place::Detached(mount), _) => Ok(Name::Held(mount.as_raw_fd(), "")),
            (Place::Directory(path), _) => match fits(path) {
                Some(name) => Ok(Name::Path(name)),
                None => open_dir(CWD, path).map(Name::Opened),
            },
            (Place::Mapped(path), Some(mount)) => match fits(path) {
                Some(name) => Ok(Name::Held(mount.as_raw_fd(), name)),
                None => open_dir(mount, path).map(Name::Opened),
            },
            (Place::Mapped(path), None) => Err(RootError::io("find", path, Errno::NOENT)),
        }
    }
}

/// Leaves room for `/proc/self/fd/…/` before it and a directory behind it.
const MAX_PATH: usize = MAX_VALUE - 40;

/// How a place is named to the kernel, which takes short names only.
enum Name<'a> {
    Path(&'a str),
    Held(i32, &'a str),
    Opened(OwnedFd),
}

impl Name<'_> {
    fn below(&self, dir: &str) -> String {
        match self {
            Self::Path(name) => format!("{name}{dir}"),
            Self::Held(fd, name) => format!("/proc/self/fd/{fd}/{name}{dir}"),
            Self::Opened(fd) => format!("/proc/self/fd/{}{dir}", fd.as_raw_fd()),
        }
    }
}

pub(crate) fn open_dir(parent: impl AsFd, path: &Path) -> Result<OwnedFd, RootError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(parent, path, flags, Mode::empty()).map_err(RootError::at("open", path))
}
