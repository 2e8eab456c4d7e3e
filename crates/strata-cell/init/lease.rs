//! The lease of what a server assigned to this node, held where the daemon's
//! death, a stopped daemon or a full disk cannot reach it: a timer of the boot
//! clock. The daemon moves its end with every heartbeat that a server answers.
//! When it fires, every marked cgroup is ended, repeatedly until the lease is
//! renewed: whatever is started late is ended too.
//!
//! Which cells the lease holds for is written on their cgroups, as an
//! attribute: it needs no memory here and no disk, and is there for a shim that
//! took the place of one that died.

use crate::LEASE;
use crate::sys::{self, NONE};
use crate::wire::{FENCED, FENCED_USER, LEASE_WAIVED};

/// How soon killed processes are looked for again.
const RECHECK_INTERVAL_NS: u64 = 20_000_000;
/// How often what is started after the end is looked for.
const LATE_NS: u64 = 250_000_000;
/// How deep groups are looked for. Cells nest, and machines inside them make
/// groups of their own.
const DEPTH: usize = 16;
/// How many members are ended in one pass over a group.
const BATCH: usize = 128;

/// The end of the lease.
pub struct Lease {
    timer: i32,
    /// The cgroup directory below which marked groups are.
    root: i32,
    /// 0 where there never was one.
    deadline: u64,
}

impl Lease {
    pub const UNSET: Self = Self { timer: NONE, root: NONE, deadline: 0 };

    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Whether nothing may be started under it: it ended, or never began.
    pub fn is_over(&self) -> bool {
        sys::boot_time() >= self.deadline
    }

    pub fn set(&mut self, epoll: i32, deadline: u64, fds: &[i32]) -> sys::Result<()> {
        let root = sys::dup_above(*fds.first().ok_or(sys::EINVAL)?)?;
        sys::close(self.root);
        self.root = root;
        if self.timer == NONE {
            self.timer = sys::timer()?;
            sys::epoll_add(epoll, self.timer, LEASE)?;
        }
        self.deadline = deadline;
        // One that has passed fires at once.
        sys::set_timer(self.timer, if deadline == LEASE_WAIVED { 0 } else { deadline.max(1) })
    }

    pub fn on_timer(&mut self) {
        let mut count = 0u64;
        // SAFETY: 8 bytes of a plain number.
        let bytes = unsafe { core::slice::from_raw_parts_mut((&raw mut count).cast::<u8>(), 8) };
        let _ = sys::read(self.timer, bytes);
        if !self.is_over() {
            return;
        }
        // Another descriptor: a directory is read from where the last left off.
        let left = match sys::openat(self.root, c".", sys::O_DIRECTORY | sys::O_CLOEXEC, 0) {
            Ok(root) => {
                let left = end_marked(root, 0, false);
                sys::close(root);
                left
            }
            Err(_) => false,
        };
        let pause = if left { RECHECK_INTERVAL_NS } else { LATE_NS };
        let _ = sys::set_timer(self.timer, sys::boot_time() + pause);
    }
}

/// Ends every marked group below a directory, or every group below it where it
/// is marked itself. The answer is whether a member was found.
fn end_marked(directory: i32, depth: usize, marked: bool) -> bool {
    // In whole words, as the kernel aligns entries.
    let mut buffer = [0u64; 256];
    let mut found = false;
    if depth == DEPTH {
        return false;
    }
    loop {
        // SAFETY: the same bytes; any are valid.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<u8>(), size_of_val(&buffer))
        };
        let len = match sys::directory_entries(directory, bytes) {
            Ok(len) if len > 0 => len,
            _ => return found,
        };
        let mut at = 0;
        while at + NAME < len {
            let size = usize::from(u16::from_ne_bytes([bytes[at + 16], bytes[at + 17]]));
            let kind = bytes[at + 18];
            let name = &bytes[at + NAME..(at + size).min(len)];
            at += size.max(NAME);
            if kind == IS_DIRECTORY && name[0] != b'.' {
                found |= end_group(directory, name, depth, marked);
            }
        }
    }
}

/// Where the name of a `struct linux_dirent64` begins.
const NAME: usize = 19;
const IS_DIRECTORY: u8 = 4;

fn end_group(above: i32, name: &[u8], depth: usize, marked: bool) -> bool {
    let Ok(name) = core::ffi::CStr::from_bytes_until_nul(name) else { return false };
    let Ok(group) = sys::openat(above, name, sys::O_DIRECTORY | sys::O_CLOEXEC, 0) else {
        return false;
    };
    let own = sys::has_attribute(group, FENCED) || sys::has_attribute(group, FENCED_USER);
    let mut found = false;
    if own {
        // One write ends all of a v2 group and of those below it. Elsewhere no
        // fork may outrun the signals that follow.
        if write(group, c"cgroup.kill", b"1").is_err() {
            let _ = write(group, c"pids.max", b"0");
        }
    }
    if own || marked {
        found |= end_members(group);
    }
    found |= end_marked(group, depth + 1, own || marked);
    sys::close(group);
    found
}

fn write(group: i32, file: &core::ffi::CStr, value: &[u8]) -> sys::Result<()> {
    let file = sys::openat(group, file, sys::O_WRONLY | sys::O_CLOEXEC, 0)?;
    let written = sys::write(file, value).map(drop);
    sys::close(file);
    written
}

/// Ends the members of one group. The answer is whether there were any.
///
/// By pidfd, and only those that are still members once that is open: the pid
/// may be another process's meanwhile.
fn end_members(group: i32) -> bool {
    let mut pids = [0i32; BATCH];
    let listed = members(group, &mut pids);
    let mut pidfds = [NONE; BATCH];
    for (pidfd, pid) in pidfds.iter_mut().zip(&pids[..listed]) {
        *pidfd = sys::pidfd_open(*pid).unwrap_or(NONE);
    }
    let mut now = [0i32; BATCH];
    let still = members(group, &mut now);
    for (pidfd, pid) in pidfds.iter().zip(&pids[..listed]) {
        if *pidfd != NONE && now[..still].contains(pid) {
            let _ = sys::pidfd_signal(*pidfd, sys::SIGKILL);
        }
        sys::close(*pidfd);
    }
    listed > 0
}

/// The first members of a group; how many.
fn members(group: i32, pids: &mut [i32; BATCH]) -> usize {
    let Ok(file) = sys::openat(group, c"cgroup.procs", sys::O_CLOEXEC, 0) else { return 0 };
    let mut text = [0u8; BATCH * 11];
    let mut len = 0;
    while let Ok(more @ 1..) = sys::read(file, &mut text[len..]) {
        len += more;
    }
    sys::close(file);
    let mut count = 0;
    for line in text[..len].split_inclusive(|byte| *byte == b'\n') {
        // A line that was cut short is left for the next pass.
        let Some(digits) = line.strip_suffix(b"\n") else { break };
        let pid = crate::decimal(digits) as i32;
        // 0 is a process that this one cannot see.
        if pid > 0 && count < BATCH {
            pids[count] = pid;
            count += 1;
        }
    }
    count
}
