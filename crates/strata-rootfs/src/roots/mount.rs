//! From layers and a writable layer to a mount that no process sees yet.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::points::MountPoint;
use super::record::Limit;
use super::{BASE, IMAGE, PLACE, Roots, check};
use crate::attributes::change;
use crate::creator::root_of;
use crate::limits::image;
use crate::mapped::{Mapped, map};
use crate::overlay::{MAX_LAYERS, Overlay, Place};
use crate::{RootError, private};

/// How a root is mounted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RootOptions<'a> {
    /// The pod cannot write to its root. The writable layer is not used then,
    /// not even read.
    pub read_only: bool,
    /// Device nodes in the root cannot be opened; those in `/dev` can, which
    /// is a mount of its own.
    pub no_dev: bool,
    /// Set-user-id bits and file capabilities in the root mean nothing.
    pub no_suid: bool,
    /// A user namespace: what its uid 0 writes is stored as uid 0, and files
    /// of uid 0 in shared layers belong to its uid 0. Needs Linux 5.19.
    pub id_map: Option<BorrowedFd<'a>>,
    /// Places for volumes, made where the image does not have them. Those for
    /// `/proc`, `/sys`, `/dev` and `/etc/{hosts,hostname,resolv.conf}` are
    /// always there.
    pub mount_points: &'a [MountPoint<'a>],
}

impl Roots {
    /// Mounts the layers, the lowest first, with the root's writable layer on
    /// top. The mount is detached: it is the returned descriptor's alone, until
    /// a caller moves it to a place, and goes with its last user.
    ///
    /// A root is mounted once at a time. Where that can be known, a second
    /// mount waits a moment for the end of the first and then fails.
    pub fn mount(
        &self,
        id: &str,
        layers: &[PathBuf],
        options: RootOptions<'_>,
    ) -> Result<OwnedFd, RootError> {
        check(id)?;
        if layers.len() >= MAX_LAYERS {
            return Err(RootError::TooManyLayers {
                count: layers.len(),
                most: MAX_LAYERS - 1,
            });
        }
        let overlay = self.plan(id, layers, options)?;
        self.make_overlay(&overlay).map_err(|error| {
            if self.root_dir(id).is_dir() {
                error
            } else {
                RootError::NotFound { id: id.into() }
            }
        })
    }

    /// What the overlay is made of. The lowest layer is ours, and then comes
    /// the one with mount points for volumes.
    fn plan(
        &self,
        id: &str,
        layers: &[PathBuf],
        options: RootOptions<'_>,
    ) -> Result<Overlay, RootError> {
        let mut dirs = vec![self.path.join(BASE)];
        if !options.mount_points.is_empty() {
            dirs.push(self.make_points(id, options.mount_points)?);
        }
        dirs.extend_from_slice(layers);
        let mut attributes = MountAttrFlags::empty();
        if options.no_dev {
            attributes |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        if options.no_suid {
            attributes |= MountAttrFlags::MOUNT_ATTR_NOSUID;
        }
        let upper = if options.read_only {
            attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
            None
        } else {
            Some(self.writable(id, options.id_map)?)
        };
        let overlay = Overlay {
            lowers: dirs.into_iter().map(Place::Directory).collect(),
            upper,
            mapped: None,
            attributes,
            creator: None,
        };
        match options.id_map {
            Some(namespace) => map_all(overlay, namespace),
            None => Ok(overlay),
        }
    }

    /// Where this root's `upper` and `work` are.
    fn writable(&self, id: &str, id_map: Option<BorrowedFd<'_>>) -> Result<Place, RootError> {
        let dir = self.root_dir(id);
        let Some(Limit::Image { .. }) = Limit::read(&dir)? else {
            return Ok(Place::Directory(dir));
        };
        let mount = image::mount(id, &dir.join(IMAGE))?;
        if id_map.is_some() {
            change(&mount, false, MountAttrFlags::empty(), id_map)?;
        }
        Ok(Place::Detached(mount))
    }

    /// Tries the short way, and remembers when this kernel has only the long.
    fn make_overlay(&self, overlay: &Overlay) -> Result<OwnedFd, RootError> {
        let mut places = overlay.lowers.iter().chain(&overlay.upper);
        let detached = places.any(|place| !matches!(place, Place::Directory(_)));
        let old = if detached {
            &self.old_detached
        } else {
            &self.old_overlay
        };
        if !old.load(Ordering::Relaxed) {
            match overlay.mount() {
                Err(RootError::Mount { source, .. }) if is_invalid(&source) => {}
                other => return other,
            }
        }
        let mount = private::mount_overlay(overlay, &self.path.join(PLACE))?;
        old.store(true, Ordering::Relaxed);
        Ok(mount)
    }
}

fn is_invalid(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// Lets a user namespace see all places that are not mapped yet.
fn map_all(mut overlay: Overlay, namespace: BorrowedFd<'_>) -> Result<Overlay, RootError> {
    let places = overlay.lowers.iter().chain(&overlay.upper);
    let dirs = places.filter_map(|place| match place {
        Place::Directory(path) => Some(path.as_path()),
        _ => None,
    });
    let mapped = Mapped::above(dirs, namespace)?;
    for place in overlay.lowers.iter_mut().chain(&mut overlay.upper) {
        if let Place::Directory(path) = place {
            *place = match mapped.find(path) {
                Some(below) => Place::Mapped(below),
                None => Place::Detached(map(path, namespace)?),
            };
        }
    }
    // Our own lowest layer belongs to root.
    overlay.creator = match &overlay.lowers[0] {
        Place::Mapped(below) => Some(root_of(&mapped.mount, below)?),
        Place::Detached(mount) => Some(root_of(mount, Path::new("."))?),
        Place::Directory(_) => None,
    };
    overlay.mapped = Some(mapped.mount);
    Ok(overlay)
}
