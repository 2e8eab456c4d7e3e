//! The first process of a PID namespace inside the cell's own, for pods whose
//! program is PID 1 itself (systemd, s6, busybox init). The init stays what it
//! is to the daemon: parent of all runs, keeper of their logs, reaper; but the
//! namespace that the pod sees does not have it.
//!
//! That process must be there before the program is known: only a process of a
//! PID namespace can mount the `proc` that shows it, and inside a user
//! namespace only while the host's own is in sight, so before the root changes.
//! So it is started by `SETUP_ROOT`, mounts `proc`, and waits; `SPAWN` of the
//! main run then makes it the requested program, which costs no second process.
//!
//! ```text
//!   prepare ── clone ──▶ MAKING ── proc is mounted ──▶ WAITING
//!   start ── child is laid out ──▶ GO ── exec or exit ──▶ `alive` is 0
//! ```
//!
//! It shares memory, files and root with the init until then, as every child
//! does until exec; from `GO` on it has files and a root of its own.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::Once;
use crate::spawn::{CLONE_CLEAR_SIGHAND, CLONE_VM, Child, Failure, STACK, Stack, child_main, failure_of};
use crate::sys::{self, CloneArgs};
use crate::wire;

const CLONE_FS: u64 = 0x200;
const CLONE_FILES: u64 = 0x400;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;

const MAKING: u32 = 0;
const WAITING: u32 = 1;
const GO: u32 = 2;
/// How long a wait lasts before it is looked whether the other side is there.
const POLL_INTERVAL_MS: i64 = 100;

/// Not that of other children: this one lives beside them.
static FIRST_STACK: Once<Stack> = Once::new(Stack([0; STACK]));
static STATE: AtomicU32 = AtomicU32::new(MAKING);
/// Cleared by the kernel once the process has other memory, or none.
static ALIVE: AtomicU32 = AtomicU32::new(0);
/// The mount of `proc`, or the errno of the attempt, negative.
static PROC: AtomicI32 = AtomicI32::new(0);
static CHILD: AtomicUsize = AtomicUsize::new(0);
static PID: AtomicI32 = AtomicI32::new(0);
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Starts the process, and with it the namespace in which all later children
/// are; answers a detached mount of the `proc` that shows it.
pub fn prepare() -> sys::Result<i32> {
    sys::unshare(CLONE_NEWPID)?;
    ALIVE.store(1, Ordering::SeqCst);
    let args = CloneArgs {
        flags: CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_CLEAR_SIGHAND | CLONE_CHILD_CLEARTID,
        child_tid: ALIVE.as_ptr() as u64,
        exit_signal: sys::SIGCHLD as u64,
        stack: FIRST_STACK.take().0.as_mut_ptr() as u64,
        stack_size: STACK as u64,
        ..CloneArgs::default()
    };
    PID.store(sys::clone3(&args, wait, 0)?, Ordering::SeqCst);
    while STATE.load(Ordering::SeqCst) == MAKING {
        if ALIVE.load(Ordering::SeqCst) == 0 {
            return Err(sys::EIO);
        }
        sys::futex_wait(&STATE, MAKING, POLL_INTERVAL_MS);
    }
    match PROC.load(Ordering::SeqCst) {
        mount if mount > 0 => Ok(mount),
        errno => Err(-errno),
    }
}

/// The process, once, for a main run; none where there is none.
pub fn take(main: bool) -> Option<i32> {
    let pid = PID.load(Ordering::SeqCst);
    (main && pid != 0 && !TAKEN.swap(true, Ordering::SeqCst)).then_some(pid)
}

/// Turns the process into `child`; comes back once it has called exec or exit.
pub fn start(pid: i32, child: &mut Child, into_cgroup: Option<i32>) -> Result<(i32, i32), Failure> {
    let mut members = sys::NONE;
    if let Some(group) = into_cgroup {
        // It was born before there was a group to be born into.
        let flags = sys::O_WRONLY | sys::O_CLOEXEC;
        members = sys::openat(group, c"cgroup.procs", flags, 0)
            .map_err(|errno| (wire::STEP_CGROUP, errno))?;
        (child.tasks[0], child.tasks_len) = (members, 1);
    }
    CHILD.store(&raw mut *child as usize, Ordering::SeqCst);
    STATE.store(GO, Ordering::SeqCst);
    sys::futex_wake(&STATE);
    loop {
        match ALIVE.load(Ordering::SeqCst) {
            0 => break,
            alive => sys::futex_wait(&ALIVE, alive, POLL_INTERVAL_MS),
        }
    }
    sys::close(members);
    match failure_of(child) {
        (_, 0) => Ok((pid, sys::NONE)),
        failure => Err(failure),
    }
}

extern "C" fn wait(_: usize) -> ! {
    let mount = sys::new_mount(c"proc", false).unwrap_or_else(|errno| -errno);
    PROC.store(mount, Ordering::SeqCst);
    STATE.store(WAITING, Ordering::SeqCst);
    sys::futex_wake(&STATE);
    while STATE.load(Ordering::SeqCst) != GO {
        sys::futex_wait(&STATE, WAITING, POLL_INTERVAL_MS);
    }
    let child = CHILD.load(Ordering::SeqCst);
    if let Err(errno) = sys::unshare(CLONE_FS | CLONE_FILES) {
        // SAFETY: the init made this from a `Child` and waits for us.
        let child = unsafe { &mut *(child as *mut Child) };
        child.failure = (wire::STEP_CLONE, errno);
        sys::exit(127);
    }
    child_main(child)
}
