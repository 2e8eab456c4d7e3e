//! Paths of the host that requests name: how they are opened so that a process
//! that can write on the way does not decide what is opened.
//!
//! A directory in `local_folders` may be one that pods write to. So a path in
//! it is opened beneath that directory's own descriptor, through no link at
//! all, whichever principal requested it; and what was opened is what is
//! mounted or read, never the path again.
//!
//! Other paths only an admin can name. One that leads through no link when it
//! is first used is *pinned*: later it is refused if it does. One that leads
//! through a link is an admin's own arrangement, and followed each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Paths that lead through no link, and have to stay so: for each path as it
/// was named, what it really was. Kept in the record of what uses them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Pins(BTreeMap<PathBuf, PathBuf>);

impl Pins {
    /// Pins those of these paths that lead through no link now.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a Path>, allowed: &[PathBuf]) -> Self {
        let pin = |path: &'a Path| match find(path, allowed) {
            // Strict as long as it is allowed, and afterwards by its pin.
            Some((top, rest)) => {
                let real = top.canonicalize().ok()?.join(rest);
                Some((path.to_owned(), real))
            }
            None => {
                let real = path.canonicalize().ok()?;
                (real == path).then(|| (real.clone(), real))
            }
        };
        Self(paths.into_iter().filter_map(pin).collect())
    }

    /// Opens a path, without access to what it is (`O_PATH`).
    pub(crate) fn open(&self, path: &Path, allowed: &[PathBuf]) -> io::Result<OwnedFd> {
        if find(path, allowed).is_some() {
            return open_allowed(path, allowed);
        }
        match self.0.get(path) {
            Some(real) => strict(Path::new("/"), real.strip_prefix("/").unwrap_or(real)),
            None => Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?),
        }
    }

    /// Opens a file to be read.
    pub(crate) fn open_file(&self, path: &Path, allowed: &[PathBuf]) -> io::Result<File> {
        readable(&self.open(path, allowed)?)
    }
}

/// Whether a path is beneath one of these directories, by its name.
pub(crate) fn is_allowed(path: &Path, allowed: &[PathBuf]) -> bool {
    find(path, allowed).is_some()
}

/// Opens a path beneath one of these directories, through no link
/// (`O_PATH`). Refuses one that is beneath none.
pub(crate) fn open_allowed(path: &Path, allowed: &[PathBuf]) -> io::Result<OwnedFd> {
    let (top, rest) = find(path, allowed).ok_or(io::ErrorKind::PermissionDenied)?;
    strict(top, &rest)
}

/// The directory that a path is beneath, and the rest of the path. Decided by
/// the names alone, so nothing on the disk influences it. Of directories in
/// each other the outermost counts: an inner one may be replaced by a link.
fn find<'a>(path: &Path, allowed: &'a [PathBuf]) -> Option<(&'a Path, PathBuf)> {
    let plain = |path: &Path| path.components().all(|part| part != Component::ParentDir);
    let beneath = allowed.iter().filter(|top| path.starts_with(top));
    let top = beneath.min_by_key(|top| top.components().count())?;
    let rest = path.strip_prefix(top).ok()?;
    plain(rest).then(|| (top.as_path(), rest.to_owned()))
}

fn strict(top: &Path, rest: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let top = open(top, flags | OFlags::DIRECTORY, Mode::empty())?;
    if rest.as_os_str().is_empty() {
        return Ok(top);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        // A rename anywhere in the system may cut a walk short.
        match openat2(&top, rest, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::LOOP) => {
                let why = format!(
                    "{} leads through a link, which is not followed",
                    rest.display()
                );
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            opened => return Ok(opened?),
        }
    }
}

/// Opens for reading what a descriptor stands for. A pipe or a device, whose
/// opening could wait or do something, is refused.
pub(crate) fn readable(file: &OwnedFd) -> io::Result<File> {
    let kind = FileType::from_raw_mode(fstat(file)?.st_mode);
    if kind != FileType::RegularFile {
        let why = format!("is a {kind:?}, not a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(open(by_descriptor(file), flags, Mode::empty())?.into())
}

/// A path that leads to what a descriptor stands for, as long as it is open.
pub(crate) fn by_descriptor(file: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

/// Whether a descriptor stands for a directory.
pub(crate) fn is_directory(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = tempfile::tempdir().unwrap();
            fs::create_dir_all(world.path().join("open/a/b")).unwrap();
            fs::create_dir_all(world.path().join("secret/b")).unwrap();
            fs::write(world.path().join("secret/file"), "secret").unwrap();
            fs::write(world.path().join("open/file"), "open").unwrap();
            Self(world)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn open(&self, path: &str) -> io::Result<OwnedFd> {
            open_allowed(&self.path(path), &[self.path("open")])
        }
    }

    #[test]
    fn only_paths_beneath_allowed_directories_are_opened() {
        let world = World::new();
        symlink("/", world.path("open/root")).unwrap();
        symlink("a", world.path("open/inner")).unwrap();
        symlink(world.path("secret/file"), world.path("open/link")).unwrap();
        for path in ["open", "open/", "open/a/b", "open/file", "open/./a"] {
            assert!(world.open(path).is_ok(), "{path}");
        }
        let refused = [
            "secret/file",
            "open/../secret/file",
            "open/a/../../secret",
            "open/root/etc",
            "open/inner/b",
            "open/link",
            "openly",
            "open/none",
            "",
        ];
        for path in refused {
            assert!(world.open(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_directory_inside_another_is_opened_through_the_outer_one() {
        let world = World::new();
        fs::remove_dir_all(world.path("open/a")).unwrap();
        symlink(world.path("secret"), world.path("open/a")).unwrap();
        let allowed = [world.path("open/a"), world.path("open")];
        assert!(open_allowed(&world.path("open/a/file"), &allowed).is_err());
    }

    #[test]
    fn a_pinned_path_is_refused_once_a_link_is_on_it() {
        let world = World::new();
        let (path, linked) = (world.path("open/a/b"), world.path("way/b"));
        symlink("open/a", world.path("way")).unwrap();
        let pins = Pins::new([path.as_path(), linked.as_path()], &[]);
        assert!(pins.open(&path, &[]).is_ok());
        assert!(pins.open(&linked, &[]).is_ok());
        fs::rename(world.path("open/a"), world.path("open/old")).unwrap();
        symlink(world.path("secret"), world.path("open/a")).unwrap();
        let error = pins.open(&path, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        // The link that an admin named is followed, wherever it leads now.
        assert!(pins.open(&linked, &[]).is_ok());
    }

    #[test]
    fn a_pin_holds_when_its_directory_is_allowed_no_more() {
        let world = World::new();
        let path = world.path("open/a");
        let pins = Pins::new([path.as_path()], &[world.path("open")]);
        fs::remove_dir_all(&path).unwrap();
        symlink("/", &path).unwrap();
        assert!(pins.open(&path, &[]).is_err());
        assert!(pins.open(&path, &[world.path("open")]).is_err());
    }

    #[test]
    fn only_files_are_opened_to_be_read() {
        let world = World::new();
        let pipe = world.path("open/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let open = |path: &str| Pins::default().open_file(&world.path(path), &[]);
        assert!(open("open/file").is_ok());
        for path in ["open/pipe", "open/a"] {
            assert!(open(path).is_err(), "{path}");
        }
    }

    /// Swaps a directory for a link and back while it is opened all the time:
    /// what is opened is the directory or nothing.
    #[test]
    fn a_race_is_never_won() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let world = World::new();
        let (path, aside) = (world.path("open/a"), world.path("aside"));
        let (target, over) = (world.path("secret"), AtomicBool::new(false));
        let secret = open(world.path("secret/b"), OFlags::PATH, Mode::empty()).unwrap();
        let secret = fstat(secret).unwrap().st_ino;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::rename(&path, &aside).unwrap();
                    symlink(&target, &path).unwrap();
                    fs::remove_file(&path).unwrap();
                    fs::rename(&aside, &path).unwrap();
                }
            });
            let mut opened = 0;
            for _ in 0..20_000 {
                if let Ok(file) = world.open("open/a/b") {
                    opened += 1;
                    assert_ne!(fstat(&file).unwrap().st_ino, secret);
                }
            }
            over.store(true, Ordering::Relaxed);
            assert!(opened > 0);
        });
    }
}
