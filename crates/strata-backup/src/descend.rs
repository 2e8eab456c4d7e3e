//! Opens what lies below an open directory, however deep.
//!
//! The kernel takes no path of more than 4096 bytes, but trees may be deeper: a
//! process that enters every directory that it makes never passes such a path.
//! A long path is gone in steps, each from where the last one ended, so that
//! two descriptors are enough for any depth.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Result;

/// How many bytes one step has: less than the kernel takes.
const STEP: usize = 4000;

/// No link is followed, and nothing leads out, whatever others do to the
/// tree meanwhile.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens a path that is made of names; the empty one is the directory itself.
pub(crate) fn open(root: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut here: Option<OwnedFd> = None;
    let from = |here: &Option<OwnedFd>, step: &Path, flags, mode| {
        let from = here.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        rustix::fs::openat2(from, step, flags, mode, RESOLVE)
    };
    if path.as_os_str().is_empty() {
        return from(&here, Path::new("."), flags, mode);
    }
    if path.as_os_str().len() <= STEP {
        return from(&here, path, flags, mode);
    }
    let mut step = PathBuf::new();
    for name in path {
        if !step.as_os_str().is_empty() && step.as_os_str().len() + 1 + name.len() > STEP {
            here = Some(from(&here, &step, on_the_way, Mode::empty())?);
            step.clear();
        }
        step.push(name);
    }
    from(&here, &step, flags, mode)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_path_of_many_steps_is_gone_and_links_on_it_are_not() {
        let world = tempfile::tempdir().expect("a directory");
        let read = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = rustix::fs::open(world.path(), read, Mode::empty()).expect("a directory");
        let mut path = PathBuf::new();
        for number in 0..100 {
            let above = open(&root, &path, read, Mode::empty()).expect("a directory");
            let name = format!("{number:0>99}");
            rustix::fs::mkdirat(&above, &name, Mode::RWXU).expect("a directory");
            path.push(name);
        }
        assert!(path.as_os_str().len() > 2 * STEP);
        let deepest = open(&root, &path, read, Mode::empty()).expect("a directory");
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        open(&root, &path.join("file"), new, Mode::RUSR).expect("a file");
        rustix::fs::statat(&deepest, "file", rustix::fs::AtFlags::empty()).expect("a file");

        let first = path.iter().next().expect("a name");
        rustix::fs::renameat(&root, first, &root, "moved").expect("a move");
        rustix::fs::symlinkat("moved", &root, first).expect("a link");
        let refused = open(&root, &path, read, Mode::empty()).expect_err("a link");
        assert_eq!(refused, Errno::LOOP);
    }
}
