//! Landlock: rights that a process gives up by itself, permanently. Each
//! version of its interface knows more rights; what the kernel does not know is
//! left out, and a kernel without Landlock changes nothing.

use core::ffi::CStr;

use crate::{Failure, sys};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// Rights on files that each version knows, from the first on.
const FILES: [u64; 5] = [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff];
/// Binding and connecting by TCP, from the fourth version on.
const TCP: u64 = 3;
/// Abstract sockets and signals, from the sixth version on.
const SCOPES: u64 = 3;

/// Gives up all but reading files, writing devices and executing `programs`.
pub fn restrict(programs: &[&CStr]) -> Result<(), Failure> {
    let failed = |errno| ("restrict itself by Landlock", errno);
    let version = match sys::landlock_version() {
        Ok(version) => version,
        // Not built in, or not switched on.
        Err(sys::ENOSYS | sys::EOPNOTSUPP) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    let files = FILES[version.clamp(1, FILES.len()) - 1];
    let since = |first: usize, rights: u64| if version >= first { rights } else { 0 };
    let attributes = [files, since(4, TCP), since(6, SCOPES)];
    let size = match version {
        ..4 => 8,
        4..6 => 16,
        _ => 24,
    };
    let rules = sys::landlock_create(&attributes, size).map_err(failed)?;
    let device = READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE | IOCTL_DEVICE;
    allow(rules, c"/", READ_FILE | READ_DIRECTORY).map_err(failed)?;
    allow(rules, c"/dev", device & files).map_err(failed)?;
    for program in programs {
        allow(rules, program, EXECUTE | READ_FILE).map_err(failed)?;
    }
    sys::set_no_new_privileges().map_err(failed)?;
    sys::landlock_restrict(rules).map_err(failed)?;
    sys::close(rules);
    Ok(())
}

fn allow(rules: i32, path: &CStr, rights: u64) -> sys::Result<()> {
    let place = sys::open(path, sys::O_PATH)?;
    let added = sys::landlock_allow(rules, place, rights);
    sys::close(place);
    added
}
