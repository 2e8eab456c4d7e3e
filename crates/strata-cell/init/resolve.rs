//! Paths that an image or a caller controls, resolved by the kernel within
//! the root of this process. Links of `/proc` that stand for open files of a
//! process are never followed: through one of them (`/proc/self/fd/9`,
//! `/proc/1/cwd`) a path would leave the root, for this process has
//! directories of the host open while it starts others.

use core::ffi::CStr;

use crate::sys;

/// The longest path the kernel takes, with its NUL.
pub const MAX_PATH: usize = 4096;

/// What the kernel puts before a directory that is not beneath the root.
const UNREACHABLE: u8 = b'(';

/// Opens what a path leads to, only to name it: nothing is read or copied up.
/// Relative paths begin at the root.
pub fn within_root(path: &CStr, flags: i32) -> sys::Result<i32> {
    let root = sys::openat(sys::AT_FDCWD, c"/", sys::O_PATH | sys::O_DIRECTORY | sys::O_CLOEXEC, 0)?;
    let flags = flags | sys::O_PATH | sys::O_CLOEXEC;
    let opened = sys::openat2(root, path, flags, sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS);
    sys::close(root);
    opened
}

/// Opens a directory within the root; those that are missing are created.
pub fn create_directory(path: &CStr) -> sys::Result<i32> {
    match within_root(path, sys::O_DIRECTORY) {
        Err(sys::ENOENT) => {}
        opened => return opened,
    }
    let bytes = path.to_bytes();
    let mut parent = within_root(c"/", sys::O_DIRECTORY)?;
    let mut prefix = [0u8; MAX_PATH];
    for (i, byte) in bytes.iter().enumerate().take(MAX_PATH - 1) {
        prefix[i] = *byte;
        let ends = bytes.get(i + 1).is_none_or(|next| *next == b'/');
        if *byte == b'/' || !ends {
            continue;
        }
        let opened = create_one(parent, &prefix[..=i + 1]);
        sys::close(parent);
        parent = opened?;
    }
    Ok(parent)
}

/// Opens the directory behind a prefix of a path, whose parent is open.
fn create_one(parent: i32, prefix: &[u8]) -> sys::Result<i32> {
    let path = text(prefix)?;
    match within_root(path, sys::O_DIRECTORY) {
        Err(sys::ENOENT) => {}
        opened => return opened,
    }
    match sys::mkdirat(parent, last_component(path)?) {
        Ok(()) | Err(sys::EEXIST) => within_root(path, sys::O_DIRECTORY),
        Err(errno) => Err(errno),
    }
}

/// Opens the directory above the last component of a path, creating it where
/// it is missing; answers the component too.
pub fn create_parent(path: &CStr) -> sys::Result<(i32, &CStr)> {
    let name = last_component(path)?;
    let above = path.count_bytes() - name.count_bytes();
    let mut parent = [0u8; MAX_PATH];
    parent.get_mut(..above).ok_or(sys::EINVAL)?.copy_from_slice(&path.to_bytes()[..above]);
    Ok((create_directory(text(&parent)?)?, name))
}

fn text(bytes: &[u8]) -> sys::Result<&CStr> {
    CStr::from_bytes_until_nul(bytes).map_err(|_| sys::EINVAL)
}

/// The name at the end of a path; a path that ends otherwise has none.
fn last_component(path: &CStr) -> sys::Result<&CStr> {
    let bytes = path.to_bytes_with_nul();
    let begin = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let name = CStr::from_bytes_with_nul(&bytes[begin..]).map_err(|_| sys::EINVAL)?;
    match name.to_bytes() {
        b"" | b"." | b".." => Err(sys::EINVAL),
        _ => Ok(name),
    }
}

/// Makes a directory within the root the working directory. What the kernel
/// calls it afterwards proves that it is beneath the root.
pub fn change_directory(path: &CStr) -> sys::Result<()> {
    let directory = within_root(path, sys::O_DIRECTORY)?;
    let changed = sys::fchdir(directory);
    sys::close(directory);
    changed?;
    let mut cwd = [0u8; MAX_PATH];
    match sys::getcwd(&mut cwd) {
        // Deeper than the kernel has words for, and beneath the root: what
        // is not begins with a mark, which would fit.
        Err(sys::ERANGE | sys::ENAMETOOLONG) => Ok(()),
        Err(errno) => Err(errno),
        Ok(_) if cwd[0] == b'/' => Ok(()),
        Ok(_) => Err(if cwd[0] == UNREACHABLE { sys::EXDEV } else { sys::EPERM }),
    }
}

/// Refuses a program whose path leads through an open file of a process.
pub fn check_program(path: &CStr) -> sys::Result<()> {
    let flags = sys::O_PATH | sys::O_CLOEXEC;
    sys::openat2(sys::AT_FDCWD, path, flags, sys::RESOLVE_NO_MAGICLINKS).map(sys::close)
}
