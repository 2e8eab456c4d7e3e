//! The writable layers of one node's pods. Its volumes are kept in the same
//! way, in a directory of their own.
//!
//! ```text
//! <id>/upper, <id>/work   what a pod wrote, and the overlay's workshop
//! <id>/limit              how it is limited; absent without a limit
//! <id>/disk.ext4          instead of upper and work: a file system in a file
//! <id>/data               of a volume, instead of upper and work: what is in it
//! <id>/new, <id>/filling  of a volume: whether its image's content is in it
//! <id>/points             mount points that the image lacks
//! .base/                  the lowest layer of all: the usual mount points
//! .templates/             formatted file systems, to be copied
//! .tmp/                   what is being made; emptied at every opening
//! .gone/                  what is being removed; emptied at every opening
//! .place/                 an empty directory to mount on, in private namespaces
//! ```
//!
//! A root comes into its place by one rename and leaves it by one, so a death
//! of the daemon leaves it whole or absent. Nothing is synced: a loss of power
//! ends the pod too, and what a pod itself synced is on the disk.

mod create;
mod fill;
mod mount;
mod open;
mod points;
mod record;
mod remove;
mod usage;
mod volumes;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use mount::RootOptions;
pub use points::MountPoint;
pub use usage::DiskUsage;
pub use volumes::Volumes;

use crate::RootError;
use crate::limits::DiskLimits;
use crate::limits::image::Templates;
use crate::limits::project::Projects;

const BASE: &str = ".base";
const TEMPLATES: &str = ".templates";
const TMP: &str = ".tmp";
const GONE: &str = ".gone";
const PLACE: &str = ".place";
const UPPER: &str = "upper";
const WORK: &str = "work";
const DATA: &str = "data";
const IMAGE: &str = "disk.ext4";
const MAX_ID: usize = 128;

/// What the things in a directory of roots are: directories, by name and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Writable layers. The mode of `upper` is that of the pod's `/`.
    Layers,
    /// Volumes, which several pods may have at once.
    Volumes,
}

impl Shape {
    fn dirs(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Layers => &[(WORK, 0o700), (UPPER, 0o755)],
            Self::Volumes => &[(DATA, 0o755)],
        }
    }

    /// The same in a file system in a file; the top of one is a volume.
    fn in_image(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Layers => self.dirs(),
            Self::Volumes => &[],
        }
    }

    /// Where that is what counts.
    fn kept(self) -> &'static str {
        match self {
            Self::Layers => UPPER,
            Self::Volumes => DATA,
        }
    }
}

/// All writable layers of one node. One process at a time has a directory open.
pub struct Roots {
    path: PathBuf,
    /// The directory itself, locked.
    dir: OwnedFd,
    limits: DiskLimits,
    shape: Shape,
    templates: Templates,
    projects: Projects,
    /// Makes names in `.tmp` and `.gone` unique.
    count: AtomicU64,
    /// The overlay of this kernel needs a private namespace for directories.
    old_overlay: AtomicBool,
    /// It needs one for detached layers.
    old_detached: AtomicBool,
}

impl Roots {
    /// How a disk limit is enforced here, if it can be.
    #[must_use]
    pub fn disk_limits(&self) -> &DiskLimits {
        &self.limits
    }

    /// The names of all roots, in no order.
    pub fn list(&self) -> Result<Vec<String>, RootError> {
        let failed = || RootError::at::<std::io::Error>("look through", &self.path);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            // Whatever else lies here is not ours to report or remove.
            if let Some(name) = name.to_str().filter(|name| check(name).is_ok()) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// A name that nothing in `.tmp` or `.gone` has.
    fn unique(&self, id: &str) -> String {
        format!("{id}.{}", self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn root_dir(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }
}

/// A name becomes that of a directory; ours begin with a dot.
fn check(id: &str) -> Result<(), RootError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if id.is_empty() || id.len() > MAX_ID || id.starts_with('.') || !id.bytes().all(plain) {
        return Err(RootError::BadId { id: id.into() });
    }
    Ok(())
}
