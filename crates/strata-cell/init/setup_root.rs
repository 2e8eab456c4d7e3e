//! The root of a cell that is handed one: detached mounts come in as open
//! files, are put in their places, and the machine's own files are gone.
//!
//! What is mounted again (`proc`, `sysfs`) is made before the root changes:
//! inside a user namespace the kernel allows that only where an uncovered one
//! is in sight. All else happens after, and every path is resolved within the
//! new root (`resolve`), whatever links an image holds.

use core::ffi::CStr;

use crate::first;
use crate::link::Inbox;
use crate::resolve::{self, MAX_PATH};
use crate::sys;
use crate::wire::{self, MAX_NEW, Request};

const MS_BIND: u64 = 4096;
/// Remount, bind, without devices, programs or set-user-id.
const NO_DEVICES: u64 = 32 | MS_BIND | 4 | 8 | 2;
/// What `fstatfs` reports for `/proc`.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// Which text failed, and why.
type Failure = (u32, i32);

/// Makes the root according to the request.
pub fn setup_root(request: &Request, inbox: &Inbox) -> Result<(), Failure> {
    let before = |errno| (0, errno);
    let (root, mounts) = inbox.fds().split_first().ok_or((0, sys::EINVAL))?;
    let mut new = [sys::NONE; MAX_NEW];
    let mut made = 0;
    // Another PID namespace than this process's: only a process in it can
    // mount the `proc` that shows it.
    let own_init = request.flags & wire::PROGRAM_IS_INIT != 0;
    let mut proc = if own_init { Some(first::prepare().map_err(before)?) } else { None };
    for (i, text) in texts(request, inbox).enumerate() {
        let read_only = match text.to_bytes().first() {
            Some(&wire::OP_NEW) => false,
            Some(&wire::OP_NEW_READ_ONLY) => true,
            _ => continue,
        };
        let slot = new.get_mut(made).ok_or((i as u32, sys::EINVAL))?;
        *slot = match proc.take_if(|_| is_proc(text)) {
            Some(mount) => mount,
            None => new_mount(text, read_only).map_err(|errno| (i as u32, errno))?,
        };
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

fn is_proc(text: &CStr) -> bool {
    text.to_bytes().get(1..).is_some_and(|kind| kind.starts_with(b"proc:"))
}

fn new_mount(text: &CStr, read_only: bool) -> sys::Result<i32> {
    let (kind, _) = split(operand(text)?, b':')?;
    sys::new_mount(head_text(&kind)?, read_only)
}

/// Makes a detached mount the root and drops the old one. `/proc` is the one
/// directory that is always there to put it on.
fn enter(root: i32) -> sys::Result<()> {
    sys::move_mount(root, sys::AT_FDCWD, c"/proc")?;
    crate::setup::enter(c"/proc")
}

fn place(text: &CStr, next: &mut dyn FnMut(bool) -> sys::Result<i32>) -> sys::Result<()> {
    let path = operand(text)?;
    match text.to_bytes()[0] {
        wire::OP_DIR => {
            let mount = next(false)?;
            // `/run` is found where an image has it, but devices are in
            // `/dev` or nowhere.
            match path {
                path if path == c"/dev" => mount_at_name(mount, path),
                path => mount_on_directory(mount, path),
            }
        }
        wire::OP_FILE => mount_on_file(next(false)?, path),
        wire::OP_CONTENT => content(next(false)?, path),
        wire::OP_NEW | wire::OP_NEW_READ_ONLY => {
            let mount = next(true)?;
            let (_, directory) = split(path, b':')?;
            let moved = mount_at_name(mount, directory);
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

/// Mounts on a directory, which is created where it is missing. A link at the
/// end of the path is followed, within the root.
fn mount_on_directory(mount: i32, path: &CStr) -> sys::Result<()> {
    let place = resolve::create_directory(path)?;
    let moved = outside_proc(place).and_then(|()| sys::move_mount_onto(mount, place));
    sys::close(place);
    moved
}

/// Mounts on a directory by its name: a link in its place is covered.
fn mount_at_name(mount: i32, path: &CStr) -> sys::Result<()> {
    let (parent, name) = resolve::create_parent(path)?;
    let moved = match sys::mkdirat(parent, name) {
        // On a root that cannot be changed the mount shows whether it is there.
        Ok(()) | Err(sys::EEXIST | sys::EROFS) => sys::move_mount(mount, parent, name),
        Err(errno) => Err(errno),
    };
    sys::close(parent);
    moved
}

/// Mounts on a file, which is created where it is missing. One that is there
/// is not opened: that would copy it, and its directory, into the pod's own
/// layer. A link is as good as a file, wherever it leads: the mount covers
/// the link itself.
fn mount_on_file(mount: i32, path: &CStr) -> sys::Result<()> {
    let (parent, name) = resolve::create_parent(path)?;
    let moved = outside_proc(parent).and_then(|()| {
        let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
        match sys::openat(parent, name, flags, 0o644) {
            Ok(file) => sys::close(file),
            Err(sys::EEXIST | sys::EROFS | sys::EISDIR) => {}
            Err(errno) => return Err(errno),
        }
        sys::move_mount(mount, parent, name)
    });
    sys::close(parent);
    moved
}

/// Writes a file, or mounts one with the same content where the root takes
/// none: it cannot be changed, is full, or has something else in the way.
fn content(mount: i32, text: &CStr) -> sys::Result<()> {
    let (path, content) = split(text, b'=')?;
    let path = head_text(&path)?;
    match write_file(path, content.to_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => mount_on_file(mount, path),
    }
}

/// A plain file of root's with this content, instead of whatever else has its
/// name. One that has the content already is left alone, so that starting
/// again copies nothing up.
fn write_file(path: &CStr, content: &[u8]) -> sys::Result<()> {
    let (parent, name) = resolve::create_parent(path)?;
    let written = outside_proc(parent).and_then(|()| {
        if has_content(parent, name, content) {
            return Ok(());
        }
        match sys::unlinkat(parent, name) {
            Ok(()) | Err(sys::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
        let file = sys::openat(parent, name, flags, 0o644)?;
        // The umask is that of the process that started the daemon.
        let written = sys::fchmod(file, 0o644).and_then(|()| sys::write(file, content));
        sys::close(file);
        match written? {
            n if n == content.len() => Ok(()),
            _ => Err(sys::ENOSPC),
        }
    });
    sys::close(parent);
    written
}

fn has_content(parent: i32, name: &CStr, content: &[u8]) -> bool {
    let flags = sys::O_NOFOLLOW | sys::O_NONBLOCK | sys::O_CLOEXEC;
    let Ok(file) = sys::openat(parent, name, flags, 0) else { return false };
    let mut rest = content;
    let mut piece = [0u8; 1024];
    let same = loop {
        match sys::read(file, &mut piece) {
            Ok(0) => break rest.is_empty(),
            Ok(n) if rest.starts_with(&piece[..n]) => rest = &rest[n..],
            _ => break false,
        }
    };
    sys::close(file);
    same
}

/// Refuses a place in `/proc`, which a link of an image can lead to: what is
/// written there afterwards would go to files that the author of the image
/// chose.
fn outside_proc(place: i32) -> sys::Result<()> {
    match sys::file_system(place)? {
        PROC_SUPER_MAGIC => Err(sys::EPERM),
        _ => Ok(()),
    }
}

/// Covers a file with `/dev/null` and a directory with an empty one.
fn mask(path: &CStr) -> sys::Result<()> {
    let (place, cover) = match resolve::within_root(path, sys::O_DIRECTORY) {
        Ok(place) => (place, sys::new_mount(c"tmpfs", true)),
        Err(sys::ENOTDIR) => (resolve::within_root(path, 0)?, null_device()),
        Err(errno) => return Err(errno),
    };
    put_over(place, cover)
}

fn null_device() -> sys::Result<i32> {
    let null = resolve::within_root(c"/dev/null", 0)?;
    let copy = sys::clone_mount(null);
    sys::close(null);
    copy
}

fn read_only(path: &CStr) -> sys::Result<()> {
    let place = resolve::within_root(path, 0)?;
    let copy = sys::clone_mount(place);
    let copy = copy.and_then(|copy| match sys::tree_read_only(copy) {
        Ok(()) => Ok(copy),
        Err(errno) => {
            sys::close(copy);
            Err(errno)
        }
    });
    put_over(place, copy)
}

/// Puts a detached mount, where there is one, over an open place; closes both.
fn put_over(place: i32, cover: sys::Result<i32>) -> sys::Result<()> {
    let moved = cover.and_then(|cover| {
        let moved = sys::move_mount_onto(cover, place);
        sys::close(cover);
        moved
    });
    sys::close(place);
    moved
}

fn sysctl(text: &CStr) -> sys::Result<()> {
    const DIR: &[u8] = b"/proc/sys/";
    let (name, value) = split(text, b'=')?;
    let name = head_text(&name)?.to_bytes();
    let mut path = [0u8; MAX_PATH];
    let end = DIR.len() + name.len();
    path.get_mut(..DIR.len()).ok_or(sys::EINVAL)?.copy_from_slice(DIR);
    path.get_mut(DIR.len()..end).ok_or(sys::EINVAL)?.copy_from_slice(name);
    let flags = sys::O_WRONLY | sys::O_CLOEXEC;
    let file = sys::openat2(sys::AT_FDCWD, head_text(&path)?, flags, sys::RESOLVE_NO_SYMLINKS)?;
    let written = sys::write(file, value.to_bytes()).map(drop);
    sys::close(file);
    written
}
