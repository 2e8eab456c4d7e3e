//! The protocol between the daemon and a cell's init, and what the init leaves
//! on disk. Compiled into both sides: the library and, by path, the init, so
//! this file knows neither the standard library nor any crate.
//!
//! Both sides are on one machine, so numbers travel in its own byte order.
//! An init outlives the daemon that made it: what is here may be added to,
//! never changed. The version goes up when the meaning of a field does.

/// Begins every message and every record.
pub const MAGIC: u32 = 0x5354_5241;
/// The version of this side.
pub const VERSION: u32 = 1;

/// The longest message, either way: a command, an environment and some room.
pub const MAX_MESSAGE: usize = 160 * 1024;
/// The most file descriptors in one message: as many as a kernel passes.
pub const MAX_FDS: usize = 253;
/// The most cgroup files of one process.
pub const MAX_GROUPS: usize = 16;
/// The most processes one init looks after at a time.
pub const MAX_RUNS: usize = 256;

/// The most words and variables of one command.
pub const MAX_WORDS: usize = 4096;

/// Where an init finds its listening socket.
pub const LISTEN_FD: i32 = 3;

/// Request: are you there? Answered with the error of the set-up, if there was
/// one, and with the init's own pidfd; from then on, the connection carries an
/// `EXITED` reply for every run that ends.
pub const HELLO: u32 = 1;
/// Request: start an executable. Fds: run directory, then cgroup fds.
pub const SPAWN: u32 = 2;
/// Request: start the init of a cell inside. Fds: init image, listening
/// socket, then cgroup fds. Answered with the new init's pidfd.
pub const SPAWN_CELL: u32 = 3;
/// Request: a signal to the process group of a run.
pub const SIGNAL: u32 = 4;
/// Request: one `Reply` for each run, then one of run 0.
pub const LIST: u32 = 5;
/// Not a request: the kind of a reply that reports an end.
pub const EXITED: u32 = 6;
/// Request: make this the cell's root, once, in a cell of `INIT_HANDED`. Fds:
/// the root, then the mounts in the order in which the texts name them, all
/// detached. Payload: `argc` texts, each one of the `OP_` letters and what it
/// is about, done in their order, those that make mounts before the others.
pub const SETUP_ROOT: u32 = 7;
/// Request: what every sandboxed run of this cell is held to from now on.
/// Payload: a [`Sandbox`], its rlimits, its filter.
pub const CONFINE: u32 = 8;
/// Request: the input of a run, made with `STDIN_FILE`, ends once no other
/// process has it open for writing.
pub const END_INPUT: u32 = 9;
/// Request to the shim: the lease of assigned cells ends at `run`, in
/// nanoseconds of the boot clock; [`LEASE_WAIVED`] is no end. Fds: the cgroup
/// directory below which marked groups are ended then. A shim that does not
/// know this request closes the connection.
pub const SET_LEASE: u32 = 10;
/// Request to the shim: answered with the end of the lease as `run`; 0 where
/// there is none.
pub const GET_LEASE: u32 = 11;

/// Request to the init of a cell: it ends, and all of the cell with it, when
/// the lease does whose end is in the first eight bytes of a file, in
/// nanoseconds of the boot clock. [`LEASE_WAIVED`] is no end; 0 is no value,
/// and the end that was last read holds. Fds: the file; without one no lease
/// holds for the cell any more. Only for an init that answered `HELLO` with
/// [`WATCHES_LEASE`]: one of an earlier release closes the connection.
pub const WATCH_LEASE: u32 = 12;
/// The end of a lease that was waived: nothing is started elsewhere.
pub const LEASE_WAIVED: u64 = u64::MAX;
/// In the answer to `HELLO`: the init knows [`WATCH_LEASE`].
pub const WATCHES_LEASE: u32 = 1;
/// The attribute of the cgroup of a cell that the lease holds for.
pub const FENCED: &core::ffi::CStr = c"trusted.strata.fenced";
/// The same where trusted attributes cannot be set: in a user namespace.
pub const FENCED_USER: &core::ffi::CStr = c"user.strata.fenced";

/// Text of `SETUP_ROOT`: the next fd goes onto this directory, made if missing.
pub const OP_DIR: u8 = b'd';
/// Text of `SETUP_ROOT`: the next fd goes onto this file, made if missing.
pub const OP_FILE: u8 = b'f';
/// Text of `SETUP_ROOT`: a new file system: its type, `:`, the directory.
pub const OP_NEW: u8 = b'n';
/// Text of `SETUP_ROOT`: the same, unchangeable.
pub const OP_NEW_READ_ONLY: u8 = b'N';
/// Text of `SETUP_ROOT`: nothing is to be seen here.
pub const OP_MASK: u8 = b'x';
/// Text of `SETUP_ROOT`: nothing is to be changed here.
pub const OP_READ_ONLY: u8 = b'r';
/// Text of `SETUP_ROOT`: a kernel setting: its file below `/proc/sys`, `=`, value.
pub const OP_SYSCTL: u8 = b'k';
/// Text of `SETUP_ROOT`: device files of this mount mean nothing from here on.
pub const OP_NO_DEVICES: u8 = b'c';
/// Text of `SETUP_ROOT`: the cell's host name.
pub const OP_HOST_NAME: u8 = b'h';
/// Text of `SETUP_ROOT`: a file with this content: its path, `=`, the content. The
/// next fd is mounted there instead where the root does not take the file.
pub const OP_CONTENT: u8 = b'w';
/// The most new file systems of one `SETUP_ROOT`.
pub const MAX_NEW: usize = 8;

/// Request flag: the cgroup fd is a v2 directory for `CLONE_INTO_CGROUP`;
/// without it they are v1 `tasks` files to write into.
pub const CGROUP_V2: u32 = 1;
/// Request flag: `uid` holds a value.
pub const SET_UID: u32 = 2;
/// Request flag: `gid` holds a value.
pub const SET_GID: u32 = 4;

/// Request flag: three fds after the directory are the process's standard input,
/// output and error; nothing of it is logged.
pub const STDIO: u32 = 8;
/// Request flag: its standard input becomes its controlling terminal.
pub const TERMINAL: u32 = 16;
/// Request flag: the run is held to what `CONFINE` set.
pub const SANDBOXED: u32 = 32;
/// Request flag of `SPAWN_CELL`: `namespaces` has a user namespace in it. A
/// pipe follows the listening socket: the init waits for its end before it
/// becomes the namespace's root, so that the maps can be written first.
pub const USER_NAMESPACE: u32 = 64;
/// Request flag: the file `stdin` of the directory is the standard input.
pub const STDIN_FILE: u32 = 128;
/// Request flag: one fd after the directory is the standard input; output and
/// error are logged.
pub const INPUT: u32 = 256;
/// Request flag, with `TERMINAL`: one more fd after the three of `STDIO` is the
/// other end of the terminal. What comes out of it is logged as output, and it
/// stays open until the run is over.
pub const LOG_TERMINAL: u32 = 512;
/// Request flag: the run stays in the cgroup namespace of the init.
pub const HOST_CGROUPS: u32 = 1024;
/// Request flag of `SPAWN_CELL`: refused once the lease has ended.
pub const UNDER_LEASE: u32 = 2048;
/// Request flag of `SPAWN`: nothing is started from `signal` on, in tenths of
/// a second of the boot clock. An init that does not know it starts it: then
/// the shim ends it with its cell.
pub const NOT_AFTER: u32 = 4096;
/// Request flag of `SIGNAL`: to the process of the run alone, not its group.
pub const ALONE: u32 = 8192;
/// Request flag of `SPAWN`: signals that the init gets go to this run's process
/// alone. The first of them is PID 1 where `SETUP_ROOT` had `PROGRAM_IS_INIT`.
pub const MAIN: u32 = 16_384;
/// Request flag of `SETUP_ROOT`: all runs are in one more PID namespace, which the
/// run with `MAIN` is PID 1 of and which `proc` shows; the init is not in it.
pub const PROGRAM_IS_INIT: u32 = 32_768;
/// Request flag: the file `status` ends with a [`LostBytes`].
pub const LOST_BYTES: u32 = 65_536;

/// Sandbox flag: no program gains privileges by exec.
pub const NO_NEW_PRIVILEGES: u32 = 1;
/// The most rlimits of a sandbox.
pub const MAX_RLIMITS: usize = 16;
/// The most instructions of a filter.
pub const MAX_FILTER: usize = 1024;

/// What a sandboxed run is held to. `rlimits` of [`Rlimit`] follow, then
/// `filter` instructions of a seccomp program, 8 bytes each.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Sandbox {
    /// The capabilities that may ever be had, one bit each.
    pub capabilities: u64,
    pub flags: u32,
    /// How many rlimits follow.
    pub rlimits: u32,
    /// How many instructions follow; 0 is no filter.
    pub filter: u32,
    /// Fills the record up.
    pub reserved: u32,
}

/// One resource limit, as `prlimit` takes it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Rlimit {
    pub resource: u64,
    pub soft: u64,
    /// What it may be raised to.
    pub hard: u64,
}

/// Init flag: it has namespaces of its own and sets up mounts and host name.
pub const INIT_CELL: u32 = 1;
/// Init flag: it has a network namespace; bring the loopback up.
pub const INIT_NETWORK: u32 = 2;
/// Init flag: no file can be changed.
pub const INIT_READ_ONLY: u32 = 4;
/// Init flag: changes stay in memory.
pub const INIT_PRIVATE: u32 = 8;
/// Init flag: the directory in the third argument becomes the root.
pub const INIT_ROOT_DIR: u32 = 16;
/// Init flag: the root is handed over later, by `SETUP_ROOT`.
pub const INIT_HANDED: u32 = 32;

/// A request; the payload follows at once: `groups` as u32, then texts, each
/// ended by NUL: the directory to start in, `argc` words, `envc` variables.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Request {
    /// [`MAGIC`].
    pub magic: u32,
    /// One of the request kinds.
    pub kind: u32,
    /// The run it is about.
    pub run: u64,
    pub flags: u32,
    /// For `SIGNAL`; for `SPAWN` with `NOT_AFTER`, the deadline.
    pub signal: i32,
    /// For `SPAWN_CELL` and `SPAWN`: namespaces to make, as `clone` flags.
    pub namespaces: u64,
    /// The user to become.
    pub uid: u32,
    /// The user to become.
    pub gid: u32,
    /// How many supplementary groups follow.
    pub groups: u32,
    /// How many words follow.
    pub argc: u32,
    /// How many variables follow.
    pub envc: u32,
    /// How many log segments are kept for each channel.
    pub segments: u32,
    /// How large a log segment grows.
    pub segment_bytes: u64,
}

/// An answer, or the event of an end. The process it is about travels beside it
/// as a credential, which the kernel translates between PID namespaces.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Reply {
    /// [`MAGIC`].
    pub magic: u32,
    /// The kind of the request, or `EXITED`.
    pub kind: u32,
    /// The run it is about.
    pub run: u64,
    /// 0, or the errno of the step that failed.
    pub error: i32,
    /// Which step that was: one of the `STEP_` numbers.
    pub step: u32,
    /// The version of the init.
    pub version: u32,
    /// For `SETUP_ROOT`: which text failed, from 0. For `HELLO`: what the init
    /// knows beyond the first release, one bit each.
    pub detail: u32,
}

/// The run's directory, log files and pipes could not be made ready.
pub const STEP_FILES: u32 = 1;
/// The kernel refused a new process.
pub const STEP_CLONE: u32 = 2;
/// The process could not enter its cgroup.
pub const STEP_CGROUP: u32 = 3;
/// The process could not become the requested user.
pub const STEP_IDENTITY: u32 = 4;
/// The directory to start in cannot be entered.
pub const STEP_DIR: u32 = 5;
/// The program cannot be run.
pub const STEP_EXEC: u32 = 6;
/// The cell's mounts could not be made.
pub const STEP_MOUNTS: u32 = 7;
/// The cell's network could not be made.
pub const STEP_NETWORK: u32 = 8;
/// There is no such run, or too many.
pub const STEP_RUN: u32 = 9;
/// The process could not be confined.
pub const STEP_CONFINE: u32 = 10;
/// A text of `SETUP_ROOT` failed.
pub const STEP_SETUP_ROOT: u32 = 11;

/// The lease that it was to run under has ended.
pub const STEP_LEASE: u32 = 12;

/// A run that has not begun.
pub const RUN_NEW: u32 = 0;
/// A run whose process lives, or lived when its init last wrote.
pub const RUN_STARTED: u32 = 1;
/// A run whose process has ended.
pub const RUN_ENDED: u32 = 2;

/// The file `status` of a run. The daemon makes it at full size, so that
/// writing it later needs no space on the disk.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RunStatus {
    /// [`MAGIC`].
    pub magic: u32,
    /// One of the `RUN_` numbers.
    pub state: u32,
    /// Unix nanoseconds.
    pub started_ns: u64,
    /// Unix nanoseconds.
    pub ended_ns: u64,
    /// As `wait4` gives it.
    pub wait_status: i32,
    /// The pid as the init sees it.
    pub pid: i32,
    /// Microseconds of cpu time in user space.
    pub user_us: u64,
    /// Microseconds of cpu time in the kernel.
    pub system_us: u64,
    /// The most memory it had at once, in kilobytes.
    pub max_rss_kb: u64,
}

/// Begins a [`LostBytes`]. No JSON before it has a NUL in it.
pub const LOST_MAGIC: [u8; 8] = *b"\0lost\0\0\0";

/// The end of the file `status`: what of a run's output could not be stored.
/// The daemon makes it, so that it can be written when the disk is full: an
/// index entry needs room, and follows only with the next byte that is stored.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct LostBytes {
    /// [`LOST_MAGIC`].
    pub magic: [u8; 8],
    /// Bytes of standard output and of standard error.
    pub bytes: [u64; 2],
}

/// One entry of a log segment's time index: bytes from `offset` on were
/// written at `at_ns` or later, and `lost` bytes before them never were.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// Counted from the beginning of the log, not of the segment.
    pub offset: u64,
    /// Unix nanoseconds.
    pub at_ns: u64,
    /// Bytes that could not be stored, from the beginning of the log on.
    pub lost: u64,
}
