//! System calls by hand: the init has no C library. Only what it needs, each
//! with the kernel's own signature, each answering the value or an errno.

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

pub type Errno = i32;
/// What a system call answers.
pub type Result<T> = core::result::Result<T, Errno>;

pub const EINTR: Errno = 4;
pub const EIO: Errno = 5;
pub const EAGAIN: Errno = 11;
pub const EINVAL: Errno = 22;
pub const ENOENT: Errno = 2;
pub const EACCES: Errno = 13;
pub const ENOTDIR: Errno = 20;
pub const ENOSPC: Errno = 28;
pub const ESRCH: Errno = 3;
pub const EPROTO: Errno = 71;
pub const EEXIST: Errno = 17;
pub const EISDIR: Errno = 21;
pub const EROFS: Errno = 30;
pub const EPERM: Errno = 1;
pub const ERANGE: Errno = 34;
pub const ENAMETOOLONG: Errno = 36;
pub const EXDEV: Errno = 18;
pub const EKEYEXPIRED: Errno = 127;

pub const O_WRONLY: i32 = 1;
pub const O_RDWR: i32 = 2;
pub const O_CREAT: i32 = 0o100;
pub const O_EXCL: i32 = 0o200;
pub const O_TRUNC: i32 = 0o1000;
pub const O_NONBLOCK: i32 = 0o4000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: i32 = 0o400_000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: i32 = 0o100_000;
pub const O_PATH: i32 = 0o10_000_000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: i32 = 0o200_000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: i32 = 0o40_000;
pub const O_CLOEXEC: i32 = 0o2000000;
pub const AT_FDCWD: i32 = -100;
pub const SIG_BLOCK: i32 = 0;
pub const SIG_SETMASK: i32 = 2;
pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;
pub const SIGCHLD: i32 = 17;

#[cfg(target_arch = "aarch64")]
#[path = "sys/aarch64.rs"]
mod nr;
#[cfg(target_arch = "x86_64")]
#[path = "sys/x86_64.rs"]
mod nr;

#[cfg(target_arch = "x86_64")]
fn raw(n: usize, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the
    // wrappers below pass pointers that are valid for the call.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

#[cfg(target_arch = "aarch64")]
fn raw(n: usize, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel preserves every register but x0; the wrappers below
    // pass pointers that are valid for the call.
    unsafe {
        asm!("svc 0", in("x8") n, inlateout("x0") a[0] => answer,
            in("x1") a[1], in("x2") a[2], in("x3") a[3],
            in("x4") a[4], in("x5") a[5], options(nostack));
    }
    answer
}

fn call(n: usize, a: [usize; 6]) -> Result<usize> {
    match raw(n, a) {
        error @ -4095..=-1 => Err(-error as Errno),
        value => Ok(value as usize),
    }
}

/// Pads the arguments of a system call.
macro_rules! call {
    ($n:ident) => { call(nr::$n, [0; 6]) };
    ($n:ident, $a:expr) => { call(nr::$n, [$a as usize, 0, 0, 0, 0, 0]) };
    ($n:ident, $a:expr, $b:expr) => { call(nr::$n, [$a as usize, $b as usize, 0, 0, 0, 0]) };
    ($n:ident, $a:expr, $b:expr, $c:expr) => {
        call(nr::$n, [$a as usize, $b as usize, $c as usize, 0, 0, 0])
    };
    ($n:ident, $a:expr, $b:expr, $c:expr, $d:expr) => {
        call(nr::$n, [$a as usize, $b as usize, $c as usize, $d as usize, 0, 0])
    };
    ($n:ident, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        call(nr::$n, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0])
    };
    ($n:ident, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        call(nr::$n, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize])
    };
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call!(EXIT_GROUP, code);
    }
}

/// No file. 0 is standard input and never one of ours, and a table of zeros
/// needs no room in the program.
pub const NONE: i32 = 0;

pub fn close(fd: i32) {
    if fd != NONE {
        let _ = call!(CLOSE, fd);
    }
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: i32) {
    let _ = call!(CLOSE_RANGE, first, u32::MAX, 0);
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(READ, fd, buffer.as_mut_ptr(), buffer.len())
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    call!(WRITE, fd, bytes.as_ptr(), bytes.len())
}

pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize> {
    call!(PREAD64, fd, buffer.as_mut_ptr(), buffer.len(), offset)
}

pub fn pwrite(fd: i32, bytes: &[u8], offset: u64) -> Result<usize> {
    call!(PWRITE64, fd, bytes.as_ptr(), bytes.len(), offset)
}

/// How long a file is.
pub fn size(fd: i32) -> Result<u64> {
    const FROM_END: usize = 2;
    call!(LSEEK, fd, 0usize, FROM_END).map(|size| size as u64)
}

pub fn openat(dir: i32, path: &CStr, flags: i32, mode: u32) -> Result<i32> {
    call!(OPENAT, dir, path.as_ptr(), flags, mode).map(|fd| fd as i32)
}

pub fn fchown(fd: i32, uid: u32, gid: u32) -> Result<()> {
    call!(FCHOWN, fd, uid, gid).map(drop)
}

pub fn fchmod(fd: i32, mode: u32) -> Result<()> {
    call!(FCHMOD, fd, mode).map(drop)
}

/// Waits while `word` is `value`, no longer than `milliseconds`. Comes back for
/// no reason too: look again.
pub fn futex_wait(word: &AtomicU32, value: u32, milliseconds: i64) {
    const WAIT: i32 = 0;
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let _ = call!(FUTEX, word.as_ptr(), WAIT, value, time.as_ptr());
}

/// Wakes all that wait for a change of `word`.
pub fn futex_wake(word: &AtomicU32) {
    const WAKE: i32 = 1;
    let _ = call!(FUTEX, word.as_ptr(), WAKE, i32::MAX);
}

pub fn unlinkat(dir: i32, path: &CStr) -> Result<()> {
    call!(UNLINKAT, dir, path.as_ptr(), 0).map(drop)
}

/// Symbolic links and `..` stay beneath the directory a path begins at.
pub const RESOLVE_IN_ROOT: u64 = 0x10;
/// Links of `/proc` to open files of processes are refused with ELOOP.
pub const RESOLVE_NO_MAGICLINKS: u64 = 0x02;

/// Links of any kind are refused with ELOOP.
pub const RESOLVE_NO_SYMLINKS: u64 = 0x04;

/// Opens a path according to `resolve`.
pub fn openat2(directory: i32, path: &CStr, flags: i32, resolve: u64) -> Result<i32> {
    let how: [u64; 3] = [flags as u64, 0, resolve];
    call!(OPENAT2, directory, path.as_ptr(), how.as_ptr(), size_of_val(&how)).map(|fd| fd as i32)
}

pub fn mkdirat(directory: i32, path: &CStr) -> Result<()> {
    call!(MKDIRAT, directory, path.as_ptr(), 0o755).map(drop)
}

pub fn mkdir(path: &CStr) -> Result<()> {
    call!(MKDIRAT, AT_FDCWD, path.as_ptr(), 0o755).map(drop)
}

pub fn pipe() -> Result<[i32; 2]> {
    let mut ends = [0i32; 2];
    call!(PIPE2, ends.as_mut_ptr(), O_CLOEXEC)?;
    Ok(ends)
}

/// Makes a pipe hold `bytes`; a smaller one works too, so errors are ignored.
pub fn set_pipe_size(fd: i32, bytes: usize) {
    const F_SETPIPE_SZ: i32 = 1031;
    let _ = call!(FCNTL, fd, F_SETPIPE_SZ, bytes);
}

pub fn set_nonblocking(fd: i32) -> Result<()> {
    const F_SETFL: i32 = 4;
    call!(FCNTL, fd, F_SETFL, O_NONBLOCK).map(drop)
}

/// Keeps a descriptor from whatever is started here.
pub fn set_close_on_exec(fd: i32) -> Result<()> {
    const F_SETFD: i32 = 2;
    call!(FCNTL, fd, F_SETFD, 1).map(drop)
}

/// Another descriptor of the same file, out of the way of 0 to 3.
pub fn dup_above(fd: i32) -> Result<i32> {
    const F_DUPFD_CLOEXEC: i32 = 1030;
    call!(FCNTL, fd, F_DUPFD_CLOEXEC, 4).map(|fd| fd as i32)
}

pub fn dup_to(fd: i32, target: i32) -> Result<()> {
    call!(DUP3, fd, target, 0).map(drop)
}

/// Moves at most `most` bytes from a pipe to `offset` of a file.
pub fn splice(pipe: i32, file: i32, offset: u64, most: usize) -> Result<usize> {
    const MOVE_NONBLOCK: usize = 1 | 2;
    let mut at = offset;
    call!(SPLICE, pipe, 0usize, file, &raw mut at, most, MOVE_NONBLOCK)
}

/// Unix nanoseconds.
pub fn now() -> u64 {
    let mut time = [0i64; 2];
    let _ = call!(CLOCK_GETTIME, 0, time.as_mut_ptr());
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Nanoseconds since the machine started, also while it slept.
pub fn boot_time() -> u64 {
    const BOOTTIME: i32 = 7;
    let mut time = [0i64; 2];
    let _ = call!(CLOCK_GETTIME, BOOTTIME, time.as_mut_ptr());
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// A timer of the boot clock.
pub fn timer() -> Result<i32> {
    const BOOTTIME: i32 = 7;
    call!(TIMERFD_CREATE, BOOTTIME, O_CLOEXEC | O_NONBLOCK).map(|fd| fd as i32)
}

/// Has a timer fire once at this boot time; never at 0.
pub fn set_timer(timer: i32, at: u64) -> Result<()> {
    const ABSOLUTE: i32 = 1;
    let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
    let value = [0u64, 0, seconds, nanos];
    call!(TIMERFD_SETTIME, timer, ABSOLUTE, value.as_ptr(), 0usize).map(drop)
}

/// Whether an open file has an attribute.
pub fn has_attribute(fd: i32, name: &CStr) -> bool {
    call!(FGETXATTR, fd, name.as_ptr(), 0usize, 0).is_ok()
}

/// The next entries of an open directory; how many bytes.
pub fn directory_entries(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(GETDENTS64, fd, buffer.as_mut_ptr(), buffer.len())
}

/// Sends a signal to the process behind a pidfd.
pub fn pidfd_signal(pidfd: i32, signal: i32) -> Result<()> {
    call!(PIDFD_SEND_SIGNAL, pidfd, signal, 0usize, 0).map(drop)
}

/// `struct rusage`: times first, then fourteen longs.
#[repr(C)]
#[derive(Default)]
pub struct Usage {
    pub user: [i64; 2],
    pub system: [i64; 2],
    pub max_rss_kb: i64,
    pub rest: [i64; 13],
}

/// The next child that has ended, if one has.
pub fn reap() -> Option<(i32, i32, Usage)> {
    const WNOHANG: i32 = 1;
    let (mut status, mut usage) = (0i32, Usage::default());
    match call!(WAIT4, -1isize, &raw mut status, WNOHANG, &raw mut usage) {
        Ok(pid) if pid > 0 => Some((pid as i32, status, usage)),
        _ => None,
    }
}

pub fn pid() -> i32 {
    call!(GETPID).unwrap_or(0) as i32
}

pub fn kill(pid: i32, signal: i32) -> Result<()> {
    call!(KILL, pid as isize, signal).map(drop)
}

/// Sets the signal mask, one bit for each signal from 1 on.
pub fn signal_mask(how: i32, mask: u64) {
    let _ = call!(RT_SIGPROCMASK, how, &raw const mask, 0usize, 8);
}

pub const fn signal_bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

pub fn signalfd(mask: u64) -> Result<i32> {
    call!(SIGNALFD4, -1isize, &raw const mask, 8, O_CLOEXEC | O_NONBLOCK).map(|fd| fd as i32)
}

/// `struct epoll_event`, packed on x86_64 alone.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy, Default)]
pub struct Event {
    pub events: u32,
    pub data: u64,
}

pub fn epoll_create() -> Result<i32> {
    call!(EPOLL_CREATE1, O_CLOEXEC).map(|fd| fd as i32)
}

pub fn epoll_add(epoll: i32, fd: i32, data: u64) -> Result<()> {
    const ADD: i32 = 1;
    const IN: u32 = 1;
    let event = Event { events: IN, data };
    call!(EPOLL_CTL, epoll, ADD, fd, &raw const event).map(drop)
}

pub fn epoll_remove(epoll: i32, fd: i32) {
    const REMOVE: i32 = 2;
    let _ = call!(EPOLL_CTL, epoll, REMOVE, fd, 0usize);
}

/// Waits for the given milliseconds; forever with -1.
pub fn epoll_wait(epoll: i32, events: &mut [Event], max_wait: isize) -> usize {
    call!(EPOLL_PWAIT, epoll, events.as_mut_ptr(), events.len(), max_wait, 0usize, 8).unwrap_or(0)
}

pub fn accept(fd: i32) -> Result<i32> {
    call!(ACCEPT4, fd, 0usize, 0usize, O_CLOEXEC | O_NONBLOCK).map(|fd| fd as i32)
}

/// `struct msghdr` and the one `struct iovec` it needs here.
#[repr(C)]
pub struct Message {
    pub name: usize,
    pub name_len: usize,
    pub iov: *mut [usize; 2],
    pub iov_len: usize,
    pub control: *mut u8,
    pub control_len: usize,
    pub flags: usize,
}

pub fn receive(fd: i32, message: &mut Message) -> Result<usize> {
    const CMSG_CLOEXEC: i32 = 0x4000_0000;
    call!(RECVMSG, fd, &raw mut *message, CMSG_CLOEXEC)
}

pub fn send(fd: i32, message: &Message) -> Result<usize> {
    const NOSIGNAL: i32 = 0x4000;
    call!(SENDMSG, fd, &raw const *message, NOSIGNAL)
}

pub fn chdir(path: &CStr) -> Result<()> {
    call!(CHDIR, path.as_ptr()).map(drop)
}

pub fn fchdir(directory: i32) -> Result<()> {
    call!(FCHDIR, directory).map(drop)
}

/// The working directory as the kernel names it, with its NUL; how long.
pub fn getcwd(buffer: &mut [u8]) -> Result<usize> {
    call!(GETCWD, buffer.as_mut_ptr(), buffer.len())
}

pub fn chroot(path: &CStr) -> Result<()> {
    call!(CHROOT, path.as_ptr()).map(drop)
}

pub fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    call!(PIVOT_ROOT, new.as_ptr(), old.as_ptr()).map(drop)
}

pub fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: u64, data: &CStr) -> Result<()> {
    call!(MOUNT, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr()).map(drop)
}

pub fn unmount_lazily(target: &CStr) -> Result<()> {
    const DETACH: i32 = 2;
    call!(UMOUNT2, target.as_ptr(), DETACH).map(drop)
}

/// Makes every mount from `path` down unchangeable.
pub fn mount_read_only(path: &CStr) -> Result<()> {
    set_read_only(AT_FDCWD, path, 0)
}

/// Makes a detached mount and all below it unchangeable.
pub fn tree_read_only(mount: i32) -> Result<()> {
    set_read_only(mount, c"", EMPTY_PATH)
}

fn set_read_only(directory: i32, path: &CStr, flags: i32) -> Result<()> {
    const RECURSIVE: i32 = 0x8000;
    let attributes: [u64; 4] = [1, 0, 0, 0];
    let flags = RECURSIVE | flags;
    call!(MOUNT_SETATTR, directory, path.as_ptr(), flags, attributes.as_ptr(), 32).map(drop)
}

/// The descriptor itself is meant, where a path is empty.
const EMPTY_PATH: i32 = 0x1000;

/// A detached copy of the mount at an open directory or file.
pub fn clone_mount(place: i32) -> Result<i32> {
    const CLONE: i32 = 1;
    let flags = CLONE | EMPTY_PATH | O_CLOEXEC;
    call!(OPEN_TREE, place, c"".as_ptr(), flags).map(|fd| fd as i32)
}

/// Puts a detached mount onto a path; a link at its end is covered itself.
pub fn move_mount(mount: i32, directory: i32, target: &CStr) -> Result<()> {
    const FROM_EMPTY_PATH: i32 = 4;
    call!(MOVE_MOUNT, mount, c"".as_ptr(), directory, target.as_ptr(), FROM_EMPTY_PATH).map(drop)
}

/// Puts a detached mount onto an open directory or file.
pub fn move_mount_onto(mount: i32, place: i32) -> Result<()> {
    const FROM_AND_TO_EMPTY_PATH: i32 = 4 | 0x40;
    let flags = FROM_AND_TO_EMPTY_PATH;
    call!(MOVE_MOUNT, mount, c"".as_ptr(), place, c"".as_ptr(), flags).map(drop)
}

/// A new file system, detached; neither programs nor devices work on it.
pub fn new_mount(kind: &CStr, read_only: bool) -> Result<i32> {
    const CLOEXEC: i32 = 1;
    const CREATE: i32 = 6;
    const NOSUID_NODEV_NOEXEC: i32 = 2 | 4 | 8;
    let context = call!(FSOPEN, kind.as_ptr(), CLOEXEC)? as i32;
    let attributes = NOSUID_NODEV_NOEXEC | i32::from(read_only);
    let mount = call!(FSCONFIG, context, CREATE, 0usize, 0usize, 0)
        .and_then(|_| call!(FSMOUNT, context, CLOEXEC, attributes));
    close(context);
    mount.map(|fd| fd as i32)
}

/// Takes a capability out of what this process may ever have.
pub fn drop_capability(capability: u32) -> Result<()> {
    const CAPBSET_DROP: i32 = 24;
    call!(PRCTL, CAPBSET_DROP, capability, 0, 0, 0).map(drop)
}

/// Limits what this process may do now to the capabilities in `mask`.
pub fn limit_capabilities(mask: u64) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    // Effective, permitted, inheritable; the low halves first.
    let mut sets = [[0u32; 3]; 2];
    call!(CAPGET, header.as_ptr(), sets.as_mut_ptr())?;
    for (half, set) in [mask as u32, (mask >> 32) as u32].into_iter().zip(&mut sets) {
        set.iter_mut().for_each(|bits| *bits &= half);
    }
    call!(CAPSET, header.as_ptr(), sets.as_ptr()).map(drop)
}

/// Which kind of file system an open file is on.
pub fn file_system(fd: i32) -> Result<i64> {
    let mut status = [0i64; 16];
    call!(FSTATFS, fd, status.as_mut_ptr()).map(|_| status[0])
}

/// Sets a resource limit: what holds, and what it may be raised to.
pub fn set_rlimit(resource: u64, limit: [u64; 2]) -> Result<()> {
    call!(PRLIMIT64, 0, resource, limit.as_ptr(), 0usize).map(drop)
}

/// A resource limit of this process.
pub fn rlimit(resource: u64) -> Result<[u64; 2]> {
    let mut limit = [0u64; 2];
    call!(PRLIMIT64, 0, resource, 0usize, limit.as_mut_ptr()).map(|_| limit)
}

/// What a program leaves behind when it crashes, by default: nothing. Runs
/// inherit it, and may raise it up to the hard limit. A limit of 0 keeps files
/// away, but the kernel starts the program of a `core_pattern` that begins with
/// `|` all the same; a limit of 1 stops both.
pub fn limit_cores() {
    const CORE: u64 = 4;
    const NONE: u64 = 1;
    if let Ok([_, hard]) = rlimit(CORE) {
        let _ = set_rlimit(CORE, [hard.min(NONE), hard]);
    }
}

/// Filters the system calls of this process with a program, 8 bytes for each
/// of its instructions.
pub fn set_filter(program: &[u64]) -> Result<()> {
    const SET_MODE_FILTER: i32 = 1;
    let filter = [program.len(), program.as_ptr() as usize];
    call!(SECCOMP, SET_MODE_FILTER, 0, filter.as_ptr()).map(drop)
}

/// Makes the terminal behind `fd` the one this session is controlled by.
pub fn take_terminal(fd: i32) -> Result<()> {
    const TIOCSCTTY: usize = 0x540e;
    ioctl(fd, TIOCSCTTY, core::ptr::null_mut())
}

pub fn set_host_name(name: &[u8]) -> Result<()> {
    call!(SETHOSTNAME, name.as_ptr(), name.len()).map(drop)
}

pub fn unshare(flags: u64) -> Result<()> {
    call!(UNSHARE, flags).map(drop)
}

pub fn set_session() {
    let _ = call!(SETSID);
}

pub fn set_groups(groups: *const u8, count: u32) -> Result<()> {
    call!(SETGROUPS, count, groups).map(drop)
}

pub fn set_gid(gid: u32) -> Result<()> {
    call!(SETRESGID, gid, gid, gid).map(drop)
}

pub fn set_uid(uid: u32) -> Result<()> {
    call!(SETRESUID, uid, uid, uid).map(drop)
}

/// Shows `name` in lists of processes.
pub fn set_name(name: &CStr) {
    const SET_NAME: i32 = 15;
    let _ = call!(PRCTL, SET_NAME, name.as_ptr());
}

/// Keeps processes of the cell that are not root from looking into this one.
pub fn set_undumpable() {
    const SET_DUMPABLE: i32 = 4;
    let _ = call!(PRCTL, SET_DUMPABLE, 0);
}

/// No program started from here on gains by its set-user-id bit.
pub fn set_no_new_privileges() -> Result<()> {
    const SET_NO_NEW_PRIVS: i32 = 38;
    call!(PRCTL, SET_NO_NEW_PRIVS, 1, 0, 0, 0).map(drop)
}

pub fn socket_datagram() -> Result<i32> {
    const INET: i32 = 2;
    const DGRAM_CLOEXEC: i32 = 2 | O_CLOEXEC;
    call!(SOCKET, INET, DGRAM_CLOEXEC, 0).map(|fd| fd as i32)
}

pub fn ioctl(fd: i32, request: usize, argument: *mut u8) -> Result<()> {
    call!(IOCTL, fd, request, argument).map(drop)
}

pub fn execve(path: *const u8, argv: *const usize, envp: *const usize) -> Errno {
    call!(EXECVE, path, argv, envp).err().unwrap_or(0)
}

/// Runs the program behind an open file.
pub fn exec_fd(fd: i32, argv: *const usize, envp: *const usize) -> Errno {
    call!(EXECVEAT, fd, c"".as_ptr(), argv, envp, EMPTY_PATH).err().unwrap_or(0)
}

pub fn pidfd_open(pid: i32) -> Result<i32> {
    call!(PIDFD_OPEN, pid, 0).map(|fd| fd as i32)
}

/// `struct clone_args`.
#[repr(C)]
#[derive(Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// Starts a process that runs `child(argument)` on `args.stack`, which must
/// not return. With CLONE_VM and CLONE_VFORK this returns only once the child
/// has called exec or exit.
#[cfg(target_arch = "x86_64")]
pub fn clone3(args: &CloneArgs, child: extern "C" fn(usize) -> !, argument: usize) -> Result<i32> {
    let answer: isize;
    // SAFETY: the child has a stack of its own and never comes back here; the
    // parent sees an ordinary system call.
    unsafe {
        asm!("syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE3 as isize => answer,
            in("rdi") &raw const *args, in("rsi") size_of::<CloneArgs>(),
            in("r12") child, in("r13") argument,
            lateout("rcx") _, lateout("r11") _);
    }
    if answer < 0 { Err(-answer as Errno) } else { Ok(answer as i32) }
}

#[cfg(target_arch = "aarch64")]
pub fn clone3(args: &CloneArgs, child: extern "C" fn(usize) -> !, argument: usize) -> Result<i32> {
    let answer: isize;
    // SAFETY: as above.
    unsafe {
        asm!("svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "brk 1",
            "2:",
            in("x8") nr::CLONE3,
            inlateout("x0") &raw const *args as usize => answer,
            in("x1") size_of::<CloneArgs>(),
            in("x20") child, in("x21") argument, out("x30") _);
    }
    if answer < 0 { Err(-answer as Errno) } else { Ok(answer as i32) }
}
