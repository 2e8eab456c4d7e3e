//! What a new cell looks like from inside: its own view of processes, its
//! host name, its root, its loopback. Runs once, before anything else can.

use core::ffi::CStr;

use crate::sys;
use crate::wire::{
    INIT_CELL, INIT_ROOT_DIR, INIT_HANDED, INIT_NETWORK, INIT_PRIVATE, INIT_READ_ONLY, STEP_MOUNTS, STEP_NETWORK,
};

const MS_NOSUID: u64 = 2;
const MS_NODEV: u64 = 4;
const MS_NOEXEC: u64 = 8;
const MS_BIND: u64 = 4096;
const MS_MOVE: u64 = 8192;
const MS_REC: u64 = 16384;
const MS_SLAVE: u64 = 1 << 19;

/// Sets up the cell according to the flags; a failure is a step and an errno.
pub fn cell(name: &CStr, flags: u32, root: &CStr) -> Result<(), (u32, i32)> {
    if flags & INIT_CELL == 0 {
        return Ok(());
    }
    host_name(name.to_bytes());
    mounts(flags, root).map_err(|e| (STEP_MOUNTS, e))?;
    if flags & INIT_NETWORK != 0 {
        loopback_up().map_err(|e| (STEP_NETWORK, e))?;
    }
    sys::chdir(c"/").map_err(|e| (STEP_MOUNTS, e))
}

/// The cell's name with `-` for `/`, cut to what the kernel takes.
fn host_name(name: &[u8]) {
    let mut host = [0u8; 64];
    let len = name.len().min(host.len());
    for (to, from) in host.iter_mut().zip(name) {
        *to = if *from == b'/' { b'-' } else { *from };
    }
    let _ = sys::set_host_name(&host[..len]);
}

fn mounts(flags: u32, root: &CStr) -> sys::Result<()> {
    // What the machine unmounts goes here too; what we mount stays here.
    sys::mount(c"", c"/", c"", MS_REC | MS_SLAVE, c"")?;
    if flags & INIT_HANDED != 0 {
        return Ok(());
    }
    if flags & INIT_PRIVATE != 0 {
        private_root()?;
    } else if flags & INIT_ROOT_DIR != 0 {
        directory_root(root)?;
    }
    if flags & INIT_READ_ONLY != 0 {
        sys::mount_read_only(c"/")?;
    }
    match sys::mount(c"proc", c"/proc", c"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, c"") {
        // A root that a user built may have no /proc.
        Err(sys::ENOENT | sys::ENOTDIR) if flags & INIT_ROOT_DIR != 0 => Ok(()),
        done => done,
    }
}

/// The machine's root below, memory above. `/proc` is the one directory that is
/// always there and about to be covered anyway, so the parts are built on it.
fn private_root() -> sys::Result<()> {
    sys::mount(c"strata", c"/proc", c"tmpfs", MS_NOSUID | MS_NODEV, c"mode=0755")?;
    for dir in [c"/proc/upper", c"/proc/work", c"/proc/root"] {
        sys::mkdir(dir)?;
    }
    let layers = c"lowerdir=/,upperdir=/proc/upper,workdir=/proc/work";
    sys::mount(c"strata", c"/proc/root", c"overlay", 0, layers)?;
    for (from, to) in [(c"/dev", c"/proc/root/dev"), (c"/sys", c"/proc/root/sys")] {
        sys::mount(from, to, c"", MS_BIND | MS_REC, c"")?;
    }
    enter(c"/proc/root")
}

fn directory_root(dir: &CStr) -> sys::Result<()> {
    sys::mount(dir, dir, c"", MS_BIND | MS_REC, c"")?;
    sys::chdir(dir)?;
    // Devices are the machine's; a root without the directory does without.
    match sys::mount(c"/dev", c"dev", c"", MS_BIND | MS_REC, c"") {
        Err(sys::ENOENT | sys::ENOTDIR) => {}
        done => done?,
    }
    enter(c".")
}

/// Makes a mounted directory the root and drops the old one.
pub fn enter(dir: &CStr) -> sys::Result<()> {
    sys::chdir(dir)?;
    match sys::pivot_root(c".", c".") {
        Ok(()) => sys::unmount_lazily(c".")?,
        // The very first root of a machine cannot be pivoted away.
        Err(sys::EINVAL) => {
            sys::mount(c".", c"/", c"", MS_MOVE, c"")?;
            sys::chroot(c".")?;
        }
        Err(errno) => return Err(errno),
    }
    sys::chdir(c"/")
}

fn loopback_up() -> sys::Result<()> {
    const SIOCGIFFLAGS: usize = 0x8913;
    const SIOCSIFFLAGS: usize = 0x8914;
    const UP: u8 = 1;
    let socket = sys::socket_datagram()?;
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    let result = sys::ioctl(socket, SIOCGIFFLAGS, request.as_mut_ptr()).and_then(|()| {
        request[16] |= UP;
        sys::ioctl(socket, SIOCSIFFLAGS, request.as_mut_ptr())
    });
    sys::close(socket);
    result
}
