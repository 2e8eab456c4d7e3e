//! Which system calls an emulator has. A list of what is allowed, and short: an
//! emulator is one process with threads that reads and writes files it was
//! handed. It makes no process, no socket and no namespace, changes no names in
//! the file system, and inspects no other process. What is not listed answers
//! `EPERM`, so that a QEMU which only tries something takes another way.
//!
//! The filter is put on before the emulator's exec. So it has what the way
//! there needs: the calls of the init that become another user, and of the
//! jail. They give nothing to a process without capabilities. `execve` is the
//! one of them that would; what can be executed is bound by the mounts of the
//! cell, of which only those of QEMU's own files allow it, and by Landlock.

use libc::c_long;

use super::{ENOSYS, EPERM, Filter, FilterAction};

/// What QEMU calls, by what it is for.
const ALLOWED: &[c_long] = &[
    // Files it was handed, and its own firmware and libraries.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sync_file_range,
    libc::SYS_write,
    libc::SYS_writev,
    // The guest's memory and translated code.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    // Signals to itself.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    // Events and time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_getitimer,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
    // The sockets it was handed: it makes none.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // What it is, and what the machine has.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_uname,
    // The way there, and QEMU's own filter, which can only take more away.
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_execve,
    libc::SYS_fchdir,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp,
    libc::SYS_setgroups,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
];

/// What only older architectures have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_signalfd,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_getrlimit];

/// Values of `prctl`: names, dumps, slack, filters, no new privileges, and
/// what KVM does with broken memory.
const PRCTL: &[u32] = &[
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_SECCOMP as u32,
    libc::PR_SET_SECCOMP as u32,
    libc::PR_SET_TIMERSLACK as u32,
    libc::PR_MCE_KILL as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_SET_VMA as u32,
];

impl Filter {
    /// The filter of an emulator, whichever accelerator it uses.
    pub fn for_vmm() -> Self {
        Self::deciding(|number| match c_long::from(number) {
            libc::SYS_clone => FilterAction::Thread,
            // Its flags are out of a filter's reach: libraries fall back to
            // `clone`.
            libc::SYS_clone3 => FilterAction::Errno(ENOSYS),
            libc::SYS_ioctl => FilterAction::Ioctl,
            libc::SYS_prctl => FilterAction::OneOf(PRCTL),
            libc::SYS_prlimit64 => FilterAction::Prlimit,
            number if ALLOWED.contains(&number) || ALLOWED_HERE.contains(&number) => {
                FilterAction::Allow
            }
            _ => FilterAction::Errno(EPERM),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::super::{ALLOW, ARCHITECTURE, ERRNO};
    use super::*;

    const REFUSED: u32 = ERRNO | EPERM;

    fn decide(number: c_long, argument: u32) -> u32 {
        run(&Filter::for_vmm(), ARCHITECTURE, number as u32, argument)
    }

    #[test]
    fn filter_refuses_calls_that_escape_the_process() {
        let refused = [
            libc::SYS_bpf,
            libc::SYS_bind,
            libc::SYS_chroot,
            libc::SYS_connect,
            libc::SYS_execveat,
            libc::SYS_io_uring_setup,
            libc::SYS_kill,
            libc::SYS_linkat,
            libc::SYS_memfd_create,
            libc::SYS_mkdirat,
            libc::SYS_mknodat,
            libc::SYS_mount,
            libc::SYS_open_by_handle_at,
            libc::SYS_open_tree,
            libc::SYS_perf_event_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pidfd_open,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
            libc::SYS_renameat2,
            libc::SYS_setns,
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_symlinkat,
            libc::SYS_unlinkat,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ];
        for number in refused {
            assert_eq!(decide(number, 0), REFUSED, "{number}");
        }
        #[cfg(target_arch = "x86_64")]
        for number in [
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_mkdir,
            libc::SYS_unlink,
        ] {
            assert_eq!(decide(number, 0), REFUSED, "{number}");
        }
    }

    #[test]
    fn threads_are_made_and_processes_are_not() {
        let thread = 0x003d_0f00;
        assert_eq!(decide(libc::SYS_clone, thread), ALLOW);
        assert_eq!(decide(libc::SYS_clone, 17), REFUSED);
        // CLONE_VM and CLONE_VFORK, as `posix_spawn` has it.
        assert_eq!(decide(libc::SYS_clone, 0x4111), REFUSED);
        assert_eq!(decide(libc::SYS_clone, thread | 0x4000_0000), REFUSED);
        assert_eq!(decide(libc::SYS_clone3, thread), ERRNO | ENOSYS);
    }

    #[test]
    fn arguments_are_looked_at() {
        for option in PRCTL {
            assert_eq!(decide(libc::SYS_prctl, *option), ALLOW);
        }
        let keep_capabilities = libc::PR_SET_KEEPCAPS as u32;
        let dumpable = libc::PR_SET_DUMPABLE as u32;
        for option in [keep_capabilities, dumpable, 35] {
            assert_eq!(decide(libc::SYS_prctl, option), REFUSED);
        }
    }

    #[test]
    fn other_architectures_and_later_calls_have_nothing() {
        let filter = Filter::for_vmm();
        assert_eq!(run(&filter, 0x4000_0003, 1, 0), ERRNO | ENOSYS);
        assert_eq!(run(&filter, ARCHITECTURE, 0x4000_0001, 0), ERRNO | ENOSYS);
        assert_eq!(run(&filter, ARCHITECTURE, 5000, 0), ERRNO | ENOSYS);
    }

    #[test]
    fn the_program_fits_an_init() {
        let length = Filter::for_vmm().instructions().len();
        assert!(length < crate::wire::MAX_FILTER, "{length}");
    }
}
