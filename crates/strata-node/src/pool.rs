//! The storage pool as this machine sees it: a btrfs that the pool's own
//! server mounts, with a directory for each volume. A node only uses what is
//! there; it makes and removes no volume, and changes only an empty one, which
//! it fills with what an image has in its place.
//!
//! ```text
//! POOL/pool-id                   the pool's id
//! POOL/volumes/NAME/data         what is in a volume of files
//! POOL/volumes/NAME/disk.raw     the disk of a virtual machine
//! ```
//!
//! The pool may come after the node, go and come back, so it is examined at
//! every request. An empty directory where it should be mounted is no pool:
//! what is written there would not be on it. Nested nodes have the same pool as
//! root, so nothing in it is opened through a link.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fstat, fstatfs,
    open, openat2, statx,
};
use rustix::io::Errno;
use strata_types::{Error, Label, Result};

const ID: &str = "pool-id";
const LONGEST_ID: usize = 128;
/// What the kernel calls a btrfs.
const BTRFS: u64 = 0x9123_683e;

/// Where the pool is, if one is configured for this node.
#[derive(Debug, Default)]
pub(crate) struct NodePool {
    path: Option<PathBuf>,
}

impl NodePool {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    /// Whether a pool is configured for this node, which may not be there.
    pub(crate) fn is_expected(&self) -> bool {
        self.path.is_some()
    }

    /// The id of the pool that is reached now.
    pub(crate) fn id(&self) -> Option<String> {
        let (_, id) = reach(self.path.as_deref()?).ok()?;
        Some(id)
    }

    /// The pool itself, if it is reached now.
    pub(crate) fn root(&self) -> Option<OwnedFd> {
        let (root, _) = reach(self.path.as_deref()?).ok()?;
        Some(root)
    }

    /// The directory of a volume of files, open to be mounted.
    pub(crate) fn files(&self, name: &Label, field: &str) -> Result<OwnedFd> {
        self.open(name, VolumeFormat::Files)
            .map_err(|error| error.in_field(field))
    }

    /// The directory around the files of a volume, which no pod sees.
    pub(crate) fn volume(&self, name: &Label, field: &str) -> Result<OwnedFd> {
        let root = self.reached().map_err(|error| error.in_field(field))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        within(&root, &format!("volumes/{name}"), flags)
            .map_err(|errno| unfit(name, &errno.to_string()).in_field(field))
    }

    /// The file of a volume that is a disk, open to be mounted.
    pub(crate) fn disk(&self, name: &Label, field: &str) -> Result<OwnedFd> {
        self.open(name, VolumeFormat::Disk)
            .map_err(|error| error.in_field(field))
    }

    fn open(&self, name: &Label, kind: VolumeFormat) -> Result<OwnedFd> {
        let root = self.reached()?;
        let path = |kind: VolumeFormat| format!("volumes/{name}/{}", kind.file());
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let opened = match within(&root, &path(kind), flags) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => {
                let other = within(&root, &path(kind.other()), flags);
                return Err(missing(name, kind, other.is_ok()));
            }
            Err(errno @ (Errno::LOOP | Errno::XDEV | Errno::NOTDIR)) => {
                return Err(unfit(name, &errno.to_string()));
            }
            Err(errno) => {
                let why = format!("volume {name} of the pool cannot be opened: {errno}");
                return Err(Error::unavailable(why));
            }
        };
        let found = fstat(&opened).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match found {
            Ok(found) if found == kind.file_type() => Ok(opened),
            Ok(found) => Err(unfit(name, &format!("it is a {found:?}"))),
            Err(errno) => Err(unfit(name, &errno.to_string())),
        }
    }

    fn reached(&self) -> Result<OwnedFd> {
        let why = match &self.path {
            None => "no pool is configured".to_owned(),
            Some(path) => match reach(path) {
                Ok((root, _)) => return Ok(root),
                Err(why) => format!("{}: {why}", path.display()),
            },
        };
        let text = format!("this node does not reach the storage pool ({why})");
        Err(Error::wrong_state(text)
            .with_hint("it is where its server is, and in machines that run there"))
    }
}

/// What is in a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VolumeFormat {
    Files,
    Disk,
}

impl VolumeFormat {
    const fn file(self) -> &'static str {
        match self {
            Self::Files => "data",
            Self::Disk => "disk.raw",
        }
    }

    const fn file_type(self) -> FileType {
        match self {
            Self::Files => FileType::Directory,
            Self::Disk => FileType::RegularFile,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Files => Self::Disk,
            Self::Disk => Self::Files,
        }
    }
}

/// Waited for, like an image that is not pushed yet; a volume of the wrong kind
/// does not become the right one.
fn missing(name: &Label, kind: VolumeFormat, other: bool) -> Error {
    let make = match kind {
        VolumeFormat::Files => "make it",
        VolumeFormat::Disk => "make it, as a disk",
    };
    match (other, kind) {
        (false, _) => Error::not_found(format!(
            "there is no volume {name} in the pool; {make}: strata storage volume create {name}"
        )),
        (true, VolumeFormat::Files) => Error::invalid(
            "volumes",
            format!("volume {name} of the pool is a disk, which only a virtual machine can have"),
        ),
        (true, VolumeFormat::Disk) => Error::invalid(
            "volumes",
            format!("volume {name} of the pool has files in it and is not a disk"),
        ),
    }
}

fn unfit(name: &Label, why: &str) -> Error {
    let why = format!("volume {name} of the pool is not what a volume is: {why}");
    Error::invalid("volumes", why)
}

/// Opens what is below a directory of the pool, through no link.
fn within(root: &impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// The pool that is mounted here and its id, or why there is none.
fn reach(path: &Path) -> Result<(OwnedFd, String), String> {
    let told = |errno: Errno| errno.to_string();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(path, flags, Mode::empty()).map_err(told)?;
    let stat = statx(&root, "", AtFlags::EMPTY_PATH, StatxFlags::empty()).map_err(told)?;
    if !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err("nothing is mounted there".into());
    }
    let kind = fstatfs(&root).map_err(told)?.f_type;
    // The type differs between architectures.
    if kind as u64 & 0xffff_ffff != BTRFS {
        return Err("what is mounted there is not btrfs".into());
    }
    let id = read_id(&root).map_err(|why| format!("{ID}: {why}"))?;
    Ok((root, id))
}

fn read_id(root: &OwnedFd) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = within(root, ID, flags).map_err(|errno| errno.to_string())?;
    let file = File::from(file);
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut text = String::new();
    if is_file {
        let most = LONGEST_ID as u64 + 2;
        file.take(most)
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
    }
    let id = text.trim();
    let fits = |c: char| c.is_ascii_graphic();
    if id.is_empty() || id.len() > LONGEST_ID || !id.chars().all(fits) {
        return Err("there is no id in it".into());
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use strata_types::ErrorKind;

    use super::*;

    /// A directory that looks like a pool and is none: what is below the checks
    /// of the mount is tested without one.
    fn dir() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("volumes/v1/data")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = open(dir.path(), flags, Mode::empty()).unwrap();
        (dir, root)
    }

    #[test]
    fn a_directory_is_no_pool_and_says_why() {
        let (dir, _) = dir();
        fs::write(dir.path().join(ID), "p1\n").unwrap();
        let pool = NodePool::new(Some(dir.path().into()));
        assert_eq!(pool.id(), None);
        assert!(pool.root().is_none() && pool.is_expected());
        let error = pool.files(&"v1".parse().unwrap(), "f").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongState);
        assert!(error.message().contains("nothing is mounted"), "{error}");
        let none = NodePool::default();
        let error = none.disk(&"v1".parse().unwrap(), "f").unwrap_err();
        assert!(error.message().contains("does not reach"), "{error}");
        // A mount of another kind is none either.
        assert!(reach(Path::new("/proc")).unwrap_err().contains("not btrfs"));
    }

    #[test]
    fn an_id_is_short_and_one_word() {
        let (dir, root) = dir();
        let file = dir.path().join(ID);
        assert!(read_id(&root).is_err());
        let long = "x".repeat(LONGEST_ID + 1);
        for (text, good) in [("p-1\n", true), ("", false), ("a b", false), (&long, false)] {
            fs::write(&file, text).unwrap();
            assert_eq!(read_id(&root).is_ok(), good, "{text:?}");
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(read_id(&root).is_err());
    }

    #[test]
    fn pool_paths_do_not_follow_links_or_parents() {
        let (dir, root) = dir();
        let volumes = dir.path().join("volumes");
        std::os::unix::fs::symlink("v1", volumes.join("link")).unwrap();
        let open = |path: &str| within(&root, path, OFlags::PATH | OFlags::NOFOLLOW);
        assert!(open("volumes/v1/data").is_ok());
        assert_eq!(open("volumes/link/data").unwrap_err(), Errno::LOOP);
        assert_eq!(open("../x").unwrap_err(), Errno::XDEV);
        assert_eq!(open("volumes/v2/data").unwrap_err(), Errno::NOENT);
    }
}
