//! The system calls of the jail, by hand.

use core::arch::asm;
use core::ffi::CStr;

/// What a system call answers: a value or an errno.
pub type Result<T> = core::result::Result<T, i32>;

pub const EINTR: i32 = 4;
pub const EINVAL: i32 = 22;
pub const ENOSYS: i32 = 38;
pub const EPROTO: i32 = 71;
pub const EOPNOTSUPP: i32 = 95;
pub const O_RDWR: i32 = 2;
pub const O_PATH: i32 = 0o10_000_000;
const O_CLOEXEC: i32 = 0o2_000_000;
const AT_FDCWD: isize = -100;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const MSG_CTRUNC: i32 = 8;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const LANDLOCK_CREATE_RULESET_VERSION: usize = 1;
const LANDLOCK_RULE_PATH_BENEATH: usize = 1;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const RECVMSG: usize = 47;
    pub const EXECVE: usize = 59;
    pub const PRCTL: usize = 157;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const DUP3: usize = 292;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const WRITE: usize = 64;
    pub const CLOSE: usize = 57;
    pub const RECVMSG: usize = 212;
    pub const EXECVE: usize = 221;
    pub const PRCTL: usize = 167;
    pub const EXIT_GROUP: usize = 94;
    pub const OPENAT: usize = 56;
    pub const DUP3: usize = 24;
}
/// The same everywhere, as all calls of their time.
const CLOSE_RANGE: usize = 436;
const LANDLOCK_CREATE_RULESET: usize = 444;
const LANDLOCK_ADD_RULE: usize = 445;
const LANDLOCK_RESTRICT_SELF: usize = 446;

#[cfg(target_arch = "x86_64")]
fn raw(n: usize, a: [usize; 5]) -> isize {
    let answer: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the
    // wrappers below pass pointers that are valid for the call.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

#[cfg(target_arch = "aarch64")]
fn raw(n: usize, a: [usize; 5]) -> isize {
    let answer: isize;
    // SAFETY: the kernel preserves every register but x0; the wrappers below
    // pass pointers that are valid for the call.
    unsafe {
        asm!("svc 0", in("x8") n, inlateout("x0") a[0] => answer,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], options(nostack));
    }
    answer
}

fn call(n: usize, a: [usize; 5]) -> Result<usize> {
    match raw(n, a) {
        error @ -4095..=-1 => Err(-error as i32),
        value => Ok(value as usize),
    }
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0]);
    }
}

pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    call(nr::WRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0])
}

pub fn close(fd: i32) {
    let _ = call(nr::CLOSE, [fd as usize, 0, 0, 0, 0]);
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: i32) {
    let _ = call(CLOSE_RANGE, [first as usize, u32::MAX as usize, 0, 0, 0]);
}

/// Opens a file that the program does not inherit.
pub fn open(path: &CStr, flags: i32) -> Result<i32> {
    let flags = (flags | O_CLOEXEC) as usize;
    let opened = call(nr::OPENAT, [AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0]);
    opened.map(|fd| fd as i32)
}

/// Makes `to` a copy of `from` that the program inherits.
pub fn dup_to(from: i32, to: i32) -> Result<()> {
    call(nr::DUP3, [from as usize, to as usize, 0, 0, 0]).map(drop)
}

pub fn execve(path: &CStr, argv: *const usize, envp: *const usize) -> i32 {
    let words = [path.as_ptr() as usize, argv as usize, envp as usize, 0, 0];
    call(nr::EXECVE, words).err().unwrap_or(EINVAL)
}

pub fn set_no_new_privileges() -> Result<()> {
    call(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0]).map(drop)
}

/// A message as `recvmsg` knows it, with its one part and its control data.
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: u32,
    parts: *const [usize; 2],
    part_count: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// The beginning of control data, and the descriptors behind it.
#[repr(C)]
struct Rights {
    length: usize,
    level: i32,
    kind: i32,
    fds: [i32; crate::MAX_FDS],
}

/// Where the descriptors begin.
const RIGHTS_HEADER: usize = 16;

/// Receives one message with descriptors; answers how many came.
pub fn receive(socket: i32, fds: &mut [i32; crate::MAX_FDS]) -> Result<usize> {
    let mut byte = 0u8;
    let part = [&raw mut byte as usize, 1];
    let mut rights = Rights { length: 0, level: 0, kind: 0, fds: [0; crate::MAX_FDS] };
    let mut header = MessageHeader {
        name: 0,
        name_length: 0,
        parts: &raw const part,
        part_count: 1,
        control: (&raw mut rights).cast(),
        control_length: size_of::<Rights>(),
        flags: 0,
    };
    let received = loop {
        match call(nr::RECVMSG, [socket as usize, &raw mut header as usize, 0, 0, 0]) {
            Err(EINTR) => {}
            received => break received?,
        }
    };
    // SAFETY: the kernel filled both through pointers; any bytes are valid.
    let (flags, rights) =
        unsafe { ((&raw const header.flags).read_volatile(), (&raw const rights).read_volatile()) };
    let is_rights = rights.level == SOL_SOCKET && rights.kind == SCM_RIGHTS;
    let count = rights.length.saturating_sub(RIGHTS_HEADER) / 4;
    if received != 1 || flags & MSG_CTRUNC != 0 || !is_rights || count > fds.len() {
        return Err(EPROTO);
    }
    fds[..count].copy_from_slice(&rights.fds[..count]);
    Ok(count)
}

/// Which version of Landlock the kernel has.
pub fn landlock_version() -> Result<usize> {
    call(LANDLOCK_CREATE_RULESET, [0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0])
}

/// A set of rules that refuses these rights on files, TCP and scopes.
pub fn landlock_create(attributes: &[u64; 3], size: usize) -> Result<i32> {
    let made = call(LANDLOCK_CREATE_RULESET, [attributes.as_ptr() as usize, size, 0, 0, 0]);
    made.map(|fd| fd as i32)
}

/// Twelve bytes, as the kernel packs them.
#[repr(C, packed)]
struct PathBeneath {
    rights: u64,
    place: i32,
}

/// Gives rights back below a place.
pub fn landlock_allow(rules: i32, place: i32, rights: u64) -> Result<()> {
    let rule = PathBeneath { rights, place };
    let words = [rules as usize, LANDLOCK_RULE_PATH_BENEATH, &raw const rule as usize, 0, 0];
    call(LANDLOCK_ADD_RULE, words).map(drop)
}

pub fn landlock_restrict(rules: i32) -> Result<()> {
    call(LANDLOCK_RESTRICT_SELF, [rules as usize, 0, 0, 0, 0]).map(drop)
}
