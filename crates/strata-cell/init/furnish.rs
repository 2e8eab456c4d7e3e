//! The root of a cell that is handed one: detached mounts come in as open
//! files, are put in their places, and the machine's own files are gone.
//!
//! What is mounted anew (`proc`, `sysfs`) is made before the root changes:
//! inside a user namespace the kernel allows that only where an uncovered one
//! is in sight. All else happens after, so that every path, whatever links an
//! image holds, ends inside the new root.

use core::ffi::CStr;

use crate::link::Inbox;
use crate::sys;
use crate::wire::{self, MAX_NEW, Request};

const MS_BIND: u64 = 4096;
/// Remount, bind, without devices, programs or set-user-id.
const NO_DEVICES: u64 = 32 | MS_BIND | 4 | 8 | 2;
const MAX_PATH: usize = 4096;

/// Which text failed, and why.
type Failure = (u32, i32);

/// Makes the root as the request says.
pub fn furnish(request: &Request, inbox: &Inbox) -> Result<(), Failure> {
    let before = |errno| (0, errno);
    let (root, mounts) = inbox.fds().split_first().ok_or((0, sys::EINVAL))?;
    let mut new = [sys::NONE; MAX_NEW];
    let mut made = 0;
    for (i, text) in texts(request, inbox).enumerate() {
        let read_only = match text.to_bytes().first() {
            Some(&wire::OP_NEW) => false,
            Some(&wire::OP_NEW_READ_ONLY) => true,
            _ => continue,
        };
        let slot = new.get_mut(made).ok_or((i as u32, sys::EINVAL))?;
        *slot = new_mount(text, read_only).map_err(|errno| (i as u32, errno))?;
        made += 1;
    }
    enter(*root).map_err(before)?;
    let (mut mounts, mut new) = (mounts.iter(), new[..made].iter());
    for (i, text) in texts(request, inbox).enumerate() {
        let mut next = |new_ones: bool| {
            let fds = if new_ones { &mut new } else { &mut mounts };
            fds.next().copied().ok_or(sys::EINVAL)
        };
        place(text, &mut next).map_err(|errno| (i as u32, errno))?;
    }
    sys::chdir(c"/").map_err(before)
}

fn texts<'a>(request: &Request, inbox: &'a Inbox) -> impl Iterator<Item = &'a CStr> {
    let mut rest = inbox.payload();
    (0..request.argc).map_while(move |_| {
        let text = CStr::from_bytes_until_nul(rest).ok()?;
        rest = &rest[text.count_bytes() + 1..];
        Some(text)
    })
}

/// A text without its letter.
fn operand(text: &CStr) -> sys::Result<&CStr> {
    match text.to_bytes_with_nul() {
        [_, rest @ ..] => CStr::from_bytes_with_nul(rest).map_err(|_| sys::EINVAL),
        [] => Err(sys::EINVAL),
    }
}

/// The part after the first `mark`, and the part before it as a text.
fn split(text: &CStr, mark: u8) -> sys::Result<([u8; MAX_PATH], &CStr)> {
    let bytes = text.to_bytes_with_nul();
    let at = bytes.iter().position(|byte| *byte == mark).ok_or(sys::EINVAL)?;
    let mut head = [0u8; MAX_PATH];
    head.get_mut(..at).ok_or(sys::EINVAL)?.copy_from_slice(&bytes[..at]);
    let tail = CStr::from_bytes_with_nul(&bytes[at + 1..]).map_err(|_| sys::EINVAL)?;
    Ok((head, tail))
}

fn head_text(head: &[u8]) -> sys::Result<&CStr> {
    CStr::from_bytes_until_nul(head).map_err(|_| sys::EINVAL)
}

fn new_mount(text: &CStr, read_only: bool) -> sys::Result<i32> {
    let (kind, _) = split(operand(text)?, b':')?;
    sys::new_mount(head_text(&kind)?, read_only)
}

/// Makes a detached mount the root and drops the old one. `/proc` is the one
/// folder that is always there to put it on.
fn enter(root: i32) -> sys::Result<()> {
    sys::move_mount(root, c"/proc")?;
    crate::setup::enter(c"/proc")
}

fn place(text: &CStr, next: &mut dyn FnMut(bool) -> sys::Result<i32>) -> sys::Result<()> {
    let path = operand(text)?;
    match text.to_bytes()[0] {
        wire::OP_FOLDER => {
            let mount = next(false)?;
            make_folder(path)?;
            // `/run` is found where an image has it, but devices are in
            // `/dev` or nowhere.
            match path {
                path if path == c"/dev" => sys::move_mount(mount, path),
                path => sys::move_mount_followed(mount, path),
            }
        }
        wire::OP_FILE => {
            let mount = next(false)?;
            make_file(path)?;
            sys::move_mount(mount, path)
        }
        wire::OP_NEW | wire::OP_NEW_READ_ONLY => {
            let mount = next(true)?;
            let (_, folder) = split(path, b':')?;
            make_folder(folder)?;
            let moved = sys::move_mount(mount, folder);
            sys::close(mount);
            moved
        }
        wire::OP_MASK => ignore_missing(mask(path)),
        wire::OP_READ_ONLY => ignore_missing(read_only(path)),
        wire::OP_NO_DEVICES => sys::mount(c"", path, c"", NO_DEVICES, c""),
        wire::OP_SYSCTL => sysctl(path),
        wire::OP_HOST_NAME => sys::set_host_name(path.to_bytes()),
        _ => Err(sys::EINVAL),
    }
}

fn ignore_missing(done: sys::Result<()>) -> sys::Result<()> {
    match done {
        Err(sys::ENOENT | sys::ENOTDIR) => Ok(()),
        done => done,
    }
}

/// Makes a folder and those above it, where they are missing.
fn make_folder(path: &CStr) -> sys::Result<()> {
    match sys::mkdir(path) {
        Ok(()) | Err(sys::EEXIST) => Ok(()),
        Err(sys::ENOENT) => {
            make_parents(path)?;
            sys::mkdir(path)
        }
        // An unchangeable root: it may be there, which the mount will tell.
        Err(sys::EROFS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn make_parents(path: &CStr) -> sys::Result<()> {
    let bytes = path.to_bytes();
    let mut parent = [0u8; MAX_PATH];
    for (i, byte) in bytes.iter().enumerate().take(MAX_PATH - 1) {
        if *byte == b'/' && i > 0 {
            match sys::mkdir(head_text(&parent[..=i])?) {
                Ok(()) | Err(sys::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        parent[i] = *byte;
    }
    Ok(())
}

/// Makes a file to mount on. One that is there is not opened: that would copy
/// it, and its folder, into the pod's own layer. A link is as good as a file,
/// wherever it leads: the mount covers the link itself.
fn make_file(path: &CStr) -> sys::Result<()> {
    let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
    let file = match sys::openat(sys::AT_FDCWD, path, flags, 0o644) {
        Err(sys::ENOENT) => {
            make_parents(path)?;
            sys::openat(sys::AT_FDCWD, path, flags, 0o644)?
        }
        Err(sys::EEXIST | sys::EROFS | sys::EISDIR) => return Ok(()),
        opened => opened?,
    };
    sys::close(file);
    Ok(())
}

/// Covers a file with `/dev/null` and a folder with an empty one. Which it is
/// is asked first: a mount that fails costs more than the question.
fn mask(path: &CStr) -> sys::Result<()> {
    let flags = sys::O_PATH | sys::O_DIRECTORY | sys::O_CLOEXEC;
    match sys::openat(sys::AT_FDCWD, path, flags, 0) {
        Ok(folder) => {
            sys::close(folder);
            let mount = sys::new_mount(c"tmpfs", true)?;
            let moved = sys::move_mount(mount, path);
            sys::close(mount);
            moved
        }
        Err(sys::ENOTDIR) => sys::mount(c"/dev/null", path, c"", MS_BIND, c""),
        Err(errno) => Err(errno),
    }
}

fn read_only(path: &CStr) -> sys::Result<()> {
    sys::mount(path, path, c"", MS_BIND, c"")?;
    sys::mount_read_only(path)
}

fn sysctl(text: &CStr) -> sys::Result<()> {
    const FOLDER: &[u8] = b"/proc/sys/";
    let (name, value) = split(text, b'=')?;
    let name = head_text(&name)?.to_bytes();
    let mut path = [0u8; MAX_PATH];
    let end = FOLDER.len() + name.len();
    path.get_mut(..FOLDER.len()).ok_or(sys::EINVAL)?.copy_from_slice(FOLDER);
    path.get_mut(FOLDER.len()..end).ok_or(sys::EINVAL)?.copy_from_slice(name);
    let flags = sys::O_WRONLY | sys::O_CLOEXEC;
    let file = sys::openat(sys::AT_FDCWD, head_text(&path)?, flags, 0)?;
    let written = sys::write(file, value.to_bytes()).map(drop);
    sys::close(file);
    written
}
