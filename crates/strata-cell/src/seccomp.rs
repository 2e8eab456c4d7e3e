//! Which system calls a sandboxed process has: a program for the kernel's
//! filter, made here from a short table.
//!
//! The table names what is refused, and up to which number it was thought
//! about: later calls do not exist for a sandboxed process, so programs take
//! their older way. What a capability stands for comes back with it. The set
//! is the one that container users know, without the ways into the kernel
//! that broke out of containers before.
//!
//! Emulators have a table of their own, which names what is allowed (`vmm.rs`).
//!
//! The program looks a number up by halving, so it takes eight comparisons
//! where a chain takes hundreds.

mod vmm;

use libc::c_long;

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// The last call the table was thought through for: `open_tree_attr`.
const LAST_KNOWN: u32 = 467;

/// Namespaces that `clone` could make: all of them.
const NAMESPACES: u32 = 0x7e02_0000;
/// `clone` with this makes a thread, without it a process.
const CLONE_THREAD: u32 = 0x0001_0000;
/// `socket` of this family reaches the host of a guest.
const AF_VSOCK: u32 = 40;
/// `ioctl` with these changes the project of a file, or whether files in a
/// directory belong to that of the directory, and so what a disk quota is counted
/// against.
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
/// The pod's init, as its processes see it.
const INIT_PID: u32 = 1;
/// Harmless values of `personality`: plain, uname26, compatible layout, ask.
const PERSONALITIES: [u32; 5] = [0, 0x0002_0000, 0x0000_0008, 0x0002_0008, u32::MAX];

mod cap {
    pub(super) const DAC_READ_SEARCH: u8 = 2;
    pub(super) const SYS_MODULE: u8 = 16;
    pub(super) const SYS_RAWIO: u8 = 17;
    pub(super) const SYS_PACCT: u8 = 20;
    pub(super) const SYS_ADMIN: u8 = 21;
    pub(super) const SYS_BOOT: u8 = 22;
    pub(super) const SYS_NICE: u8 = 23;
    pub(super) const SYS_TIME: u8 = 25;
    pub(super) const SYS_TTY_CONFIG: u8 = 26;
    pub(super) const SYSLOG: u8 = 34;
    pub(super) const NEVER: u8 = 64;
}

/// What is refused, and the capability that brings it back.
const REFUSED: &[(c_long, u8)] = &[
    (libc::SYS_acct, cap::SYS_PACCT),
    (libc::SYS_add_key, cap::NEVER),
    (libc::SYS_bpf, cap::SYS_ADMIN),
    (libc::SYS_clock_settime, cap::SYS_TIME),
    (libc::SYS_delete_module, cap::SYS_MODULE),
    (libc::SYS_fanotify_init, cap::SYS_ADMIN),
    (libc::SYS_finit_module, cap::SYS_MODULE),
    (libc::SYS_fsconfig, cap::SYS_ADMIN),
    (libc::SYS_fsmount, cap::SYS_ADMIN),
    (libc::SYS_fsopen, cap::SYS_ADMIN),
    (libc::SYS_fspick, cap::SYS_ADMIN),
    (libc::SYS_get_mempolicy, cap::SYS_NICE),
    (libc::SYS_init_module, cap::SYS_MODULE),
    (libc::SYS_io_uring_enter, cap::NEVER),
    (libc::SYS_io_uring_register, cap::NEVER),
    (libc::SYS_io_uring_setup, cap::NEVER),
    (libc::SYS_kexec_file_load, cap::SYS_BOOT),
    (libc::SYS_kexec_load, cap::SYS_BOOT),
    (libc::SYS_keyctl, cap::NEVER),
    (libc::SYS_lookup_dcookie, cap::SYS_ADMIN),
    (libc::SYS_mbind, cap::SYS_NICE),
    (libc::SYS_mount, cap::SYS_ADMIN),
    (libc::SYS_mount_setattr, cap::SYS_ADMIN),
    (libc::SYS_move_mount, cap::SYS_ADMIN),
    (libc::SYS_move_pages, cap::SYS_NICE),
    (libc::SYS_migrate_pages, cap::SYS_NICE),
    (libc::SYS_nfsservctl, cap::NEVER),
    (libc::SYS_open_by_handle_at, cap::DAC_READ_SEARCH),
    (libc::SYS_open_tree, cap::SYS_ADMIN),
    (467, cap::SYS_ADMIN),
    (libc::SYS_perf_event_open, cap::SYS_ADMIN),
    (libc::SYS_pivot_root, cap::SYS_ADMIN),
    (libc::SYS_quotactl, cap::SYS_ADMIN),
    (libc::SYS_quotactl_fd, cap::SYS_ADMIN),
    (libc::SYS_reboot, cap::SYS_BOOT),
    (libc::SYS_request_key, cap::NEVER),
    (libc::SYS_set_mempolicy, cap::SYS_NICE),
    (libc::SYS_set_mempolicy_home_node, cap::SYS_NICE),
    (libc::SYS_setdomainname, cap::SYS_ADMIN),
    (libc::SYS_sethostname, cap::SYS_ADMIN),
    (libc::SYS_setns, cap::SYS_ADMIN),
    (libc::SYS_settimeofday, cap::SYS_TIME),
    (libc::SYS_swapoff, cap::SYS_ADMIN),
    (libc::SYS_swapon, cap::SYS_ADMIN),
    (libc::SYS_syslog, cap::SYSLOG),
    (libc::SYS_umount2, cap::SYS_ADMIN),
    (libc::SYS_unshare, cap::SYS_ADMIN),
    (libc::SYS_userfaultfd, cap::NEVER),
    (libc::SYS_vhangup, cap::SYS_TTY_CONFIG),
];

/// What only older architectures have.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[(c_long, u8)] = &[
    (libc::SYS__sysctl, cap::NEVER),
    (libc::SYS_ioperm, cap::SYS_RAWIO),
    (libc::SYS_iopl, cap::SYS_RAWIO),
    (libc::SYS_sysfs, cap::NEVER),
    (libc::SYS_uselib, cap::NEVER),
    (libc::SYS_ustat, cap::NEVER),
];
#[cfg(target_arch = "aarch64")]
const REFUSED_HERE: &[(c_long, u8)] = &[];

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterAction {
    Allow,
    Errno(u32),
    /// Allowed without new namespaces.
    Clone,
    /// Allowed for ordinary families.
    Socket,
    /// Allowed for harmless values.
    Personality,
    /// Allowed, but for leaving the project that a disk limit is on.
    Ioctl,
    /// Allowed but for changing the limits of PID 1: the pod's init has the
    /// same user as root of the pod. The kernel keeps other users apart.
    Prlimit,
    /// Allowed for threads of the same process.
    Thread,
    /// Allowed for these first arguments.
    OneOf(&'static [u32]),
}

/// A program for the kernel's filter.
#[derive(Clone, Debug)]
pub struct Filter(Vec<u64>);

impl Filter {
    /// The filter for a process that may have these capabilities, one bit
    /// for each.
    pub fn for_capabilities(capabilities: u64) -> Self {
        Self::for_pod(capabilities, FilterAction::Prlimit)
    }

    /// The same where PID 1 is the pod's own program, not an init of ours: it
    /// changes its limits by its own number, as others do.
    pub fn for_own_init(capabilities: u64) -> Self {
        Self::for_pod(capabilities, FilterAction::Allow)
    }

    fn for_pod(capabilities: u64, prlimit: FilterAction) -> Self {
        let has = |cap: u8| cap < 64 && capabilities & (1 << cap) != 0;
        let verdict = |number: u32| {
            let number = c_long::from(number);
            let mut listed = REFUSED.iter().chain(REFUSED_HERE);
            let refusal = listed.find(|(refused, _)| *refused == number);
            match number {
                _ if refusal.is_some_and(|(_, cap)| !has(*cap)) => FilterAction::Errno(EPERM),
                libc::SYS_clone if !has(cap::SYS_ADMIN) => FilterAction::Clone,
                // Its flags are out of a filter's reach: programs fall back
                // to `clone`.
                libc::SYS_clone3 if !has(cap::SYS_ADMIN) => FilterAction::Errno(ENOSYS),
                libc::SYS_socket => FilterAction::Socket,
                libc::SYS_personality => FilterAction::Personality,
                libc::SYS_ioctl => FilterAction::Ioctl,
                libc::SYS_prlimit64 => prlimit,
                _ => FilterAction::Allow,
            }
        };
        Self::deciding(verdict)
    }

    /// The filter that decides on each number as `verdict` does.
    fn deciding(verdict: impl Fn(u32) -> FilterAction) -> Self {
        let mut ranges: Vec<(u32, FilterAction)> = Vec::new();
        for number in 0..=LAST_KNOWN {
            let verdict = verdict(number);
            if ranges.last().is_none_or(|(_, last)| *last != verdict) {
                ranges.push((number, verdict));
            }
        }
        ranges.push((LAST_KNOWN + 1, FilterAction::Errno(ENOSYS)));
        let mut program = vec![
            load(4),
            jump(Test::Equal, ARCHITECTURE, 1, 0),
            ret(ERRNO | ENOSYS),
            load(0),
        ];
        program.extend(choose(&ranges));
        Self(program)
    }

    /// The instructions, as the kernel has them in memory.
    pub(crate) fn instructions(&self) -> &[u64] {
        &self.0
    }
}

/// The part of a program that finds a number among ranges.
fn choose(ranges: &[(u32, FilterAction)]) -> Vec<u64> {
    let [_, .., _] = ranges else {
        return ranges
            .iter()
            .flat_map(|(_, verdict)| decide(*verdict))
            .collect();
    };
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let (below, above) = (choose(low), choose(high));
    let first_above = high[0].0;
    let mut program = match u8::try_from(below.len()) {
        Ok(skip) => vec![jump(Test::AtLeast, first_above, skip, 0)],
        Err(_) => vec![
            jump(Test::AtLeast, first_above, 0, 1),
            skip(below.len() as u32),
        ],
    };
    program.extend(below);
    program.extend(above);
    program
}

fn decide(verdict: FilterAction) -> Vec<u64> {
    // The lower halves of the first two arguments.
    let (argument, second) = (load(16), load(24));
    let refuse = ret(ERRNO | EPERM);
    match verdict {
        FilterAction::Allow => vec![ret(ALLOW)],
        FilterAction::Errno(errno) => vec![ret(ERRNO | errno)],
        FilterAction::Clone => vec![
            argument,
            jump(Test::Bits, NAMESPACES, 0, 1),
            refuse,
            ret(ALLOW),
        ],
        FilterAction::Socket => vec![
            argument,
            jump(Test::Equal, AF_VSOCK, 0, 1),
            refuse,
            ret(ALLOW),
        ],
        FilterAction::Ioctl => vec![
            second,
            jump(Test::Equal, FS_IOC_FSSETXATTR, 1, 0),
            jump(Test::Equal, FS_IOC_SETFLAGS, 0, 1),
            refuse,
            ret(ALLOW),
        ],
        FilterAction::Prlimit => vec![
            argument,
            jump(Test::Equal, INIT_PID, 0, 5),
            // Both halves of the pointer to new limits.
            load(32),
            jump(Test::Equal, 0, 0, 2),
            load(36),
            jump(Test::Equal, 0, 1, 0),
            refuse,
            ret(ALLOW),
        ],
        FilterAction::Personality => one_of(&PERSONALITIES),
        FilterAction::OneOf(values) => one_of(values),
        FilterAction::Thread => vec![
            argument,
            jump(Test::Bits, CLONE_THREAD, 0, 2),
            jump(Test::Bits, NAMESPACES, 1, 0),
            ret(ALLOW),
            refuse,
        ],
    }
}

/// Allows a call whose first argument is one of these.
fn one_of(values: &[u32]) -> Vec<u64> {
    let mut program = vec![load(16)];
    for (i, value) in values.iter().enumerate() {
        let to_allow = (values.len() - i) as u8;
        program.push(jump(Test::Equal, *value, to_allow, 0));
    }
    program.extend([ret(ERRNO | EPERM), ret(ALLOW)]);
    program
}

#[derive(Clone, Copy)]
enum Test {
    Equal,
    AtLeast,
    Bits,
}

const fn instruction(code: u16, yes: u8, no: u8, value: u32) -> u64 {
    let bytes = [code.to_ne_bytes(), [yes, no]];
    let value = value.to_ne_bytes();
    u64::from_ne_bytes([
        bytes[0][0],
        bytes[0][1],
        bytes[1][0],
        bytes[1][1],
        value[0],
        value[1],
        value[2],
        value[3],
    ])
}

const fn load(offset: u32) -> u64 {
    instruction(0x20, 0, 0, offset)
}

const fn ret(value: u32) -> u64 {
    instruction(0x06, 0, 0, value)
}

const fn skip(count: u32) -> u64 {
    instruction(0x05, 0, 0, count)
}

fn jump(test: Test, value: u32, yes: u8, no: u8) -> u64 {
    let code = match test {
        Test::Equal => 0x15,
        Test::AtLeast => 0x35,
        Test::Bits => 0x45,
    };
    instruction(code, yes, no, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do.
    pub(super) fn run(filter: &Filter, architecture: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut a) = (0, 0);
        loop {
            let bytes = filter.0[at].to_ne_bytes();
            let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
            let (yes, no) = (usize::from(bytes[2]), usize::from(bytes[3]));
            let k = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let branch = |taken: bool| if taken { yes } else { no };
            at += 1 + match code {
                0x20 => {
                    a = match k {
                        0 => number,
                        4 => architecture,
                        _ => argument,
                    };
                    0
                }
                0x05 => k as usize,
                0x15 => branch(a == k),
                0x35 => branch(a >= k),
                0x45 => branch(a & k != 0),
                _ => return k,
            };
        }
    }

    fn plain(number: c_long, argument: u32) -> u32 {
        let filter = Filter::for_capabilities(0);
        run(&filter, ARCHITECTURE, number as u32, argument)
    }

    #[test]
    fn every_number_gets_what_the_table_says() {
        let filter = Filter::for_capabilities(0);
        for number in 0..2000u32 {
            let refused = REFUSED
                .iter()
                .chain(REFUSED_HERE)
                .any(|(refused, _)| *refused == c_long::from(number));
            let expected = match c_long::from(number) {
                _ if number > LAST_KNOWN => ERRNO | ENOSYS,
                libc::SYS_clone3 => ERRNO | ENOSYS,
                _ if refused => ERRNO | EPERM,
                _ => ALLOW,
            };
            assert_eq!(run(&filter, ARCHITECTURE, number, 0), expected, "{number}");
        }
    }

    #[test]
    fn arguments_are_looked_at() {
        assert_eq!(plain(libc::SYS_clone, 0x0001_0000), ALLOW);
        assert_eq!(plain(libc::SYS_clone, 0x1000_0000), ERRNO | EPERM);
        assert_eq!(plain(libc::SYS_socket, 2), ALLOW);
        assert_eq!(plain(libc::SYS_socket, AF_VSOCK), ERRNO | EPERM);
        for value in PERSONALITIES {
            assert_eq!(plain(libc::SYS_personality, value), ALLOW);
        }
        assert_eq!(plain(libc::SYS_personality, 0x0004_0000), ERRNO | EPERM);
        assert_eq!(plain(libc::SYS_ioctl, 0x5401), ALLOW);
        assert_eq!(plain(libc::SYS_ioctl, FS_IOC_FSSETXATTR), ERRNO | EPERM);
        assert_eq!(plain(libc::SYS_ioctl, FS_IOC_SETFLAGS), ERRNO | EPERM);
        // The interpreter gives every argument the same value.
        assert_eq!(plain(libc::SYS_prlimit64, 0), ALLOW);
        assert_eq!(plain(libc::SYS_prlimit64, 7), ALLOW);
        assert_eq!(plain(libc::SYS_prlimit64, INIT_PID), ERRNO | EPERM);
        let own = Filter::for_own_init(0);
        let number = libc::SYS_prlimit64 as u32;
        assert_eq!(run(&own, ARCHITECTURE, number, INIT_PID), ALLOW);
        let mount = libc::SYS_mount as u32;
        assert_eq!(run(&own, ARCHITECTURE, mount, INIT_PID), ERRNO | EPERM);
    }

    #[test]
    fn a_capability_brings_its_calls_back() {
        let admin = Filter::for_capabilities(1 << cap::SYS_ADMIN);
        for number in [libc::SYS_mount, libc::SYS_clone3, libc::SYS_unshare] {
            assert_eq!(run(&admin, ARCHITECTURE, number as u32, u32::MAX), ALLOW);
        }
        let keys = run(&admin, ARCHITECTURE, libc::SYS_keyctl as u32, 0);
        assert_eq!(keys, ERRNO | EPERM);
    }

    #[test]
    fn filter_refuses_system_calls_of_another_architecture() {
        let filter = Filter::for_capabilities(u64::MAX);
        assert_eq!(run(&filter, 0x4000_0003, 1, 0), ERRNO | ENOSYS);
        // The second numbering of x86_64.
        assert_eq!(run(&filter, ARCHITECTURE, 0x4000_0001, 0), ERRNO | ENOSYS);
    }

    #[test]
    fn the_program_fits_an_init() {
        let longest = Filter::for_capabilities(0).instructions().len();
        assert!(longest < crate::wire::MAX_FILTER, "{longest}");
    }
}
