//! Starting processes: executables of this cell, and the inits of cells
//! inside. The child shares this process's memory until it calls exec
//! (CLONE_VM, CLONE_VFORK), so starting one copies no page tables and its
//! errors are simply left in a variable.

use core::ffi::{CStr, c_char};

use crate::confine::CONFINEMENT;
use crate::first;
use crate::link::{Inbox, bytes_of};
use crate::log::Log;
use crate::resolve;
use crate::sys::{self, CloneArgs, Usage};
use crate::wire::{self, MAX_WORDS, Request, RunStatus};
use crate::{Init, Once, PIPES};

pub const CLONE_VM: u64 = 0x100;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_VFORK: u64 = 0x4000;
pub const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub const STACK: usize = 64 << 10;
const PIPE_BYTES: usize = 1 << 20;
/// The first descriptor that is not one of a program's standard three.
const FIRST_INHERITED: i32 = 3;

/// Aligned as both architectures want their stacks.
#[repr(align(16))]
pub struct Stack(pub [u8; STACK]);

static CHILD_STACK: Once<Stack> = Once::new(Stack([0; STACK]));
static POINTERS: Once<[usize; MAX_WORDS + 2]> = Once::new([0; MAX_WORDS + 2]);

pub type Failure = (u32, i32);

/// One executable and what it writes.
pub struct Run {
    pub id: u64,
    /// 0 once it has ended.
    pub pid: i32,
    /// Signals for the init are for this run.
    pub main: bool,
    dir: i32,
    status_file: i32,
    /// Where the status file has what was lost; 0 where it has not.
    lost_at: u64,
    lost_written: [u64; 2],
    /// Keeps its input from ending; none when it has none, or was ended.
    input: i32,
    status: RunStatus,
    logs: [Log; 2],
}

impl Run {
    pub const FREE: Self = Self {
        id: 0,
        pid: 0,
        main: false,
        dir: sys::NONE,
        status_file: sys::NONE,
        lost_at: 0,
        lost_written: [0; 2],
        input: sys::NONE,
        status: RunStatus {
            magic: 0,
            state: wire::RUN_NEW,
            started_ns: 0,
            ended_ns: 0,
            wait_status: 0,
            pid: 0,
            user_us: 0,
            system_us: 0,
            max_rss_kb: 0,
        },
        logs: [Log::CLOSED, Log::CLOSED],
    };

    /// Moves waiting output; true once no writer is left.
    pub fn pump(&mut self, channel: usize) -> bool {
        let is_over = self.logs[channel].pump(self.dir);
        let lost = self.logs[channel].lost;
        if self.lost_at != 0 && lost != self.lost_written[channel] {
            let at = self.lost_at + 8 * channel as u64;
            if sys::pwrite(self.status_file, bytes_of(&lost), at) == Ok(8) {
                self.lost_written[channel] = lost;
            }
        }
        is_over
    }

    pub fn close_pipe(&mut self, channel: usize) {
        self.logs[channel].close_pipe();
    }

    pub fn is_over(&self) -> bool {
        self.id != 0 && self.pid == 0 && self.logs.iter().all(|log| log.pipe == sys::NONE)
    }

    pub fn release(&mut self) {
        self.logs.iter_mut().for_each(Log::close);
        sys::close(self.dir);
        sys::close(self.status_file);
        self.end_input();
        *self = Self::FREE;
    }

    /// Its input ends once others have closed it.
    pub fn end_input(&mut self) {
        sys::close(self.input);
        self.input = sys::NONE;
    }

    /// Writes down how it ended, after everything it wrote is in its log.
    pub fn on_exit(&mut self, wait_status: i32, usage: &Usage) {
        for channel in 0..2 {
            if self.pump(channel) {
                self.close_pipe(channel);
            }
        }
        let micros = |time: [i64; 2]| time[0] as u64 * 1_000_000 + time[1] as u64;
        self.end_input();
        self.pid = 0;
        self.status.state = wire::RUN_ENDED;
        self.status.ended_ns = sys::now();
        self.status.wait_status = wait_status;
        self.status.user_us = micros(usage.user);
        self.status.system_us = micros(usage.system);
        self.status.max_rss_kb = usage.max_rss_kb as u64;
        self.write_status();
    }

    fn write_status(&self) {
        let _ = sys::pwrite(self.status_file, bytes_of(&self.status), 0);
    }

    /// Opens the files of a run, and in `ends` what its process reads and
    /// writes, where that is not given.
    fn prepare(&mut self, child: &Child, dir: i32, ends: &mut [i32; 3]) -> sys::Result<()> {
        let request = &child.request;
        self.id = request.run;
        self.main = request.flags & wire::MAIN != 0;
        self.status.magic = wire::MAGIC;
        self.dir = sys::dup_above(dir)?;
        let flags = sys::O_WRONLY | sys::O_CLOEXEC;
        self.status_file = sys::openat(dir, c"status", flags, 0)?;
        if request.flags & wire::LOST_BYTES != 0 {
            self.lost_at = sys::size(self.status_file)?.saturating_sub(16);
        }
        if request.flags & wire::STDIN_FILE != 0 {
            // Open both ways, so that it does not end by itself.
            self.input = sys::openat(dir, c"stdin", sys::O_RDWR | sys::O_CLOEXEC, 0)?;
            ends[0] = sys::openat(dir, c"stdin", sys::O_CLOEXEC, 0)?;
        }
        if child.terminal != sys::NONE {
            let log = &mut self.logs[0];
            log.open(0, request.segments, request.segment_bytes);
            (log.pipe, log.terminal) = (sys::dup_above(child.terminal)?, true);
            return sys::set_nonblocking(log.pipe);
        }
        if request.flags & wire::STDIO != 0 {
            return Ok(());
        }
        for (channel, log) in self.logs.iter_mut().enumerate() {
            log.open(channel as u8, request.segments, request.segment_bytes);
            let pipe = sys::pipe()?;
            (log.pipe, ends[1 + channel]) = (pipe[0], pipe[1]);
            // A process that opens `/dev/stdout` opens the pipe again, by its
            // owner and mode: it is the user's that writes to it.
            if request.flags & wire::SET_UID != 0 {
                let _ = sys::fchown(pipe[1], request.uid, request.gid);
            }
            sys::set_pipe_size(log.pipe, PIPE_BYTES);
            sys::set_nonblocking(log.pipe)?;
        }
        Ok(())
    }
}

/// All that a child needs, laid out before it exists.
pub struct Child {
    /// The init image for a cell; none for an executable.
    image: i32,
    listen: i32,
    /// Ends when the maps of a new user namespace are written.
    mapped: i32,
    stdio: [i32; 3],
    /// The other end of its terminal, where that is logged.
    terminal: i32,
    pub tasks: [i32; wire::MAX_GROUPS],
    pub tasks_len: usize,
    request: Request,
    groups: *const u8,
    dir: *const c_char,
    argv: *const usize,
    envp: *const usize,
    pub failure: Failure,
}

impl Init {
    /// Starts what is requested; answers the pid and, for an init, a pidfd.
    pub fn spawn(&mut self, request: &Request, inbox: &Inbox) -> Result<(i32, i32), Failure> {
        let malformed = (wire::STEP_RUN, sys::EINVAL);
        let texts = ExecStrings::parse(request, inbox.payload()).ok_or(malformed)?;
        let is_cell = request.kind == wire::SPAWN_CELL;
        let extra = |flag: u32, fds: usize| if request.flags & flag != 0 { fds } else { 0 };
        let own_fds = match is_cell {
            true => 2 + extra(wire::USER_NAMESPACE, 1),
            false => 1 + extra(wire::STDIO, 3) + extra(wire::INPUT, 1) + extra(wire::LOG_TERMINAL, 1),
        };
        let (own, cgroup) = inbox.fds().split_at_checked(own_fds).ok_or(malformed)?;
        if cgroup.len() > wire::MAX_GROUPS {
            return Err(malformed);
        }
        let mut child = Child {
            image: if is_cell { own[0] } else { sys::NONE },
            listen: if is_cell { own[1] } else { sys::NONE },
            mapped: if is_cell { own.get(2).copied().unwrap_or(sys::NONE) } else { sys::NONE },
            stdio: [self.null, self.null, self.null],
            terminal: sys::NONE,
            tasks: [0; wire::MAX_GROUPS],
            tasks_len: 0,
            request: *request,
            groups: texts.groups,
            dir: texts.dir,
            argv: texts.argv,
            envp: texts.envp,
            failure: (0, 0),
        };
        let into_cgroup = match cgroup {
            [dir, ..] if request.flags & wire::CGROUP_V2 != 0 => Some(*dir),
            tasks => {
                child.tasks[..tasks.len()].copy_from_slice(tasks);
                child.tasks_len = tasks.len();
                None
            }
        };
        if is_cell {
            if request.flags & wire::UNDER_LEASE != 0 && self.lease.is_over() {
                return Err((wire::STEP_LEASE, sys::EKEYEXPIRED));
            }
            return clone(&mut child, request.namespaces, into_cgroup);
        }
        for (stdio, given) in child.stdio.iter_mut().zip(&own[1..]) {
            *stdio = *given;
        }
        if request.flags & wire::LOG_TERMINAL != 0 {
            child.terminal = *own.get(4).ok_or(malformed)?;
        }
        self.spawn_run(&mut child, own[0], into_cgroup)
    }

    fn spawn_run(
        &mut self,
        child: &mut Child,
        dir: i32,
        into_cgroup: Option<i32>,
    ) -> Result<(i32, i32), Failure> {
        let free = self.runs.iter().position(|run| run.id == 0);
        let i = free.ok_or((wire::STEP_RUN, sys::ENOSPC))?;
        let run = &mut self.runs[i];
        let mut ends = [sys::NONE; 3];
        let started = match run.prepare(child, dir, &mut ends) {
            Ok(()) => {
                for (stdio, end) in child.stdio.iter_mut().zip(ends) {
                    *stdio = if end == sys::NONE { *stdio } else { end };
                }
                run.status.started_ns = sys::now();
                let namespaces = child.request.namespaces;
                if is_too_late(&child.request) {
                    Err((wire::STEP_LEASE, sys::EKEYEXPIRED))
                } else if let Some(pid) = first::take(run.main) {
                    first::start(pid, child, into_cgroup)
                } else {
                    clone(child, namespaces, into_cgroup)
                }
            }
            Err(errno) => Err((wire::STEP_FILES, errno)),
        };
        ends.into_iter().for_each(sys::close);
        let (pid, pidfd) = started.inspect_err(|_| run.release())?;
        sys::close(pidfd);
        run.pid = pid;
        run.status.pid = pid;
        run.status.state = wire::RUN_STARTED;
        run.write_status();
        for (channel, log) in run.logs.iter().enumerate().filter(|(_, log)| log.pipe != sys::NONE) {
            let _ = sys::epoll_add(self.epoll, log.pipe, PIPES + (2 * i + channel) as u64);
        }
        Ok((pid, sys::NONE))
    }
}

/// Whether the deadline of a request has passed, however long it took to get
/// here.
fn is_too_late(request: &Request) -> bool {
    const TENTH: u64 = 100_000_000;
    request.flags & wire::NOT_AFTER != 0
        && sys::boot_time() >= u64::try_from(request.signal).unwrap_or(0) * TENTH
}

fn clone(
    child: &mut Child,
    namespaces: u64,
    into_cgroup: Option<i32>,
) -> Result<(i32, i32), Failure> {
    let mut pidfd = sys::NONE;
    // A user namespace has its maps written by the daemon, which needs the
    // pid first: no standing still until exec.
    let shared = if child.mapped == sys::NONE { CLONE_VM | CLONE_VFORK } else { 0 };
    let flags = shared | CLONE_CLEAR_SIGHAND | namespaces;
    let with_pidfd = if namespaces == 0 { 0 } else { CLONE_PIDFD };
    let args = CloneArgs {
        flags: flags | with_pidfd | into_cgroup.map_or(0, |_| CLONE_INTO_CGROUP),
        pidfd: &raw mut pidfd as u64,
        exit_signal: sys::SIGCHLD as u64,
        stack: CHILD_STACK.take().0.as_mut_ptr() as u64,
        stack_size: STACK as u64,
        cgroup: into_cgroup.unwrap_or(0) as u64,
        ..CloneArgs::default()
    };
    let pid = sys::clone3(&args, child_main, &raw mut *child as usize)
        .map_err(|errno| (wire::STEP_CLONE, errno))?;
    match failure_of(child) {
        (_, 0) => Ok((pid, pidfd)),
        failure => {
            sys::close(pidfd);
            Err(failure)
        }
    }
}

/// What the child wrote through a pointer, while we were stopped.
pub fn failure_of(child: &Child) -> Failure {
    // SAFETY: the reference it came from is ours.
    unsafe { (&raw const child.failure).read_volatile() }
}

pub extern "C" fn child_main(argument: usize) -> ! {
    // SAFETY: the parent made this pointer from a Child and is stopped.
    let child = unsafe { &mut *(argument as *mut Child) };
    let failure = child.become_it();
    // SAFETY: as above; volatile, since the parent reads it behind the
    // compiler's back.
    unsafe { (&raw mut child.failure).write_volatile(failure) };
    sys::exit(127)
}

impl Child {
    /// Becomes the requested program; returns only with a failure.
    fn become_it(&self) -> Failure {
        sys::signal_mask(sys::SIG_SETMASK, 0);
        sys::set_session();
        for tasks in &self.tasks[..self.tasks_len] {
            // "0" is the writing thread; a thread that moves itself takes no
            // lock that stops the whole machine's forks.
            if let Err(errno) = sys::write(*tasks, b"0") {
                return (wire::STEP_CGROUP, errno);
            }
        }
        if self.mapped != sys::NONE
            && let Err(errno) = self.become_mapped()
        {
            return (wire::STEP_IDENTITY, errno);
        }
        if self.image != sys::NONE {
            if let Err(errno) = sys::dup_to(self.listen, wire::LISTEN_FD) {
                return (wire::STEP_FILES, errno);
            }
            return (wire::STEP_EXEC, sys::exec_fd(self.image, self.argv, self.envp));
        }
        // Only now, and not in the init: where cgroups are delegated by
        // namespace, no process is moved or created beyond the root of its
        // namespace.
        if self.request.flags & wire::HOST_CGROUPS == 0
            && let Err(errno) = sys::unshare(CLONE_NEWCGROUP)
        {
            return (wire::STEP_CGROUP, errno);
        }
        for (target, fd) in self.stdio.into_iter().enumerate() {
            if let Err(errno) = sys::dup_to(fd, target as i32) {
                return (wire::STEP_FILES, errno);
            }
        }
        if self.request.flags & wire::TERMINAL != 0
            && let Err(errno) = sys::take_terminal(0)
        {
            return (wire::STEP_FILES, errno);
        }
        // Before anything looks at a path from outside: this table holds
        // directories of the host, and close-on-exec comes too late for the
        // working directory and for the program's own path.
        sys::close_from(FIRST_INHERITED);
        let sandboxed = self.request.flags & wire::SANDBOXED != 0;
        if sandboxed && let Err(errno) = CONFINEMENT.take().apply() {
            return (wire::STEP_CONFINE, errno);
        }
        if let Err(errno) = self.take_identity() {
            return (wire::STEP_IDENTITY, errno);
        }
        // SAFETY: `ExecStrings` found a NUL.
        let directory = unsafe { CStr::from_ptr(self.dir) };
        if let Err(errno) = resolve::change_directory(directory) {
            return (wire::STEP_DIR, errno);
        }
        if sandboxed && let Err(errno) = CONFINEMENT.take().drop_capabilities() {
            return (wire::STEP_CONFINE, errno);
        }
        (wire::STEP_EXEC, self.exec())
    }

    /// Waits until this process's user namespace has its maps, and becomes
    /// root of it.
    fn become_mapped(&self) -> sys::Result<()> {
        while sys::read(self.mapped, &mut [0]) == Err(sys::EINTR) {}
        sys::set_gid(0)?;
        sys::set_uid(0)
    }

    fn take_identity(&self) -> sys::Result<()> {
        let request = &self.request;
        let changes = wire::SET_UID | wire::SET_GID;
        if request.flags & changes == 0 && request.groups == 0 {
            return Ok(());
        }
        sys::set_groups(self.groups, request.groups)?;
        if request.flags & wire::SET_GID != 0 {
            sys::set_gid(request.gid)?;
        }
        if request.flags & wire::SET_UID != 0 {
            sys::set_uid(request.uid)?;
            // A process that is made less than root stays so, unless the
            // sandbox allows otherwise.
            if request.uid != 0 && request.flags & wire::SANDBOXED == 0 {
                sys::set_no_new_privileges()?;
            }
        }
        Ok(())
    }

    /// Looks along PATH as `execvp` does.
    fn exec(&self) -> i32 {
        // SAFETY: `ExecStrings` made sure of at least one word.
        let program = unsafe { CStr::from_ptr(*self.argv as *const c_char) }.to_bytes();
        if program.contains(&b'/') {
            // SAFETY: as above.
            return self.exec_path(unsafe { CStr::from_ptr(*self.argv as *const c_char) });
        }
        let mut worst = sys::ENOENT;
        for dir in self.search_path().split(|byte| *byte == b':') {
            let mut path = [0u8; 4096];
            let len = dir.len() + 1 + program.len();
            if len >= path.len() {
                continue;
            }
            path[..dir.len()].copy_from_slice(dir);
            path[dir.len()] = b'/';
            path[dir.len() + 1..len].copy_from_slice(program);
            // The rest of the buffer is zero.
            let Ok(path) = CStr::from_bytes_until_nul(&path) else { continue };
            match self.exec_path(path) {
                sys::ENOENT | sys::ENOTDIR => {}
                sys::EACCES => worst = sys::EACCES,
                errno => return errno,
            }
        }
        worst
    }

    fn exec_path(&self, path: &CStr) -> i32 {
        match resolve::check_program(path) {
            Ok(()) => sys::execve(path.as_ptr().cast(), self.argv, self.envp),
            Err(errno) => errno,
        }
    }

    fn search_path(&self) -> &[u8] {
        let mut variable = self.envp;
        // SAFETY: the list ends with a null pointer, each text with a NUL.
        unsafe {
            while *variable != 0 {
                let text = CStr::from_ptr(*variable as *const c_char).to_bytes();
                if let Some(path) = text.strip_prefix(b"PATH=") {
                    return path;
                }
                variable = variable.add(1);
            }
        }
        b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    }
}

/// The texts behind a request, as exec wants them.
struct ExecStrings {
    groups: *const u8,
    dir: *const c_char,
    argv: *const usize,
    envp: *const usize,
}

impl ExecStrings {
    fn parse(request: &Request, payload: &[u8]) -> Option<Self> {
        let (argc, envc) = (request.argc as usize, request.envc as usize);
        if argc == 0 || argc + envc > MAX_WORDS {
            return None;
        }
        let (groups, mut rest) = payload.split_at_checked(request.groups as usize * 4)?;
        let mut next = || {
            let end = rest.iter().position(|byte| *byte == 0)?;
            let text = rest.as_ptr() as usize;
            rest = &rest[end + 1..];
            Some(text)
        };
        let dir = next()? as *const c_char;
        let pointers = POINTERS.take();
        for slot in &mut pointers[..argc] {
            *slot = next()?;
        }
        pointers[argc] = 0;
        for slot in &mut pointers[argc + 1..=argc + envc] {
            *slot = next()?;
        }
        pointers[argc + envc + 1] = 0;
        let argv = pointers.as_ptr();
        Some(Self {
            groups: groups.as_ptr(),
            dir,
            argv,
            envp: pointers[argc + 1..].as_ptr(),
        })
    }
}
