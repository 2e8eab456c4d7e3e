//! Inits as the daemon sees them: the shim it starts itself, the inits of
//! cells that the shim or an outer cell's init starts, and the executables
//! those start.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use strata_types::{CellSpec, IdMap, RootMode};

use crate::cgroup::{Cgroup, CgroupEntry};
use crate::launch::{Launch, run_request, texts};
use crate::link::{InitEvents, InitLink, LinkError, listen};
use crate::wire::{self, MAGIC, Request};

/// The init, built by the build script.
const IMAGE: &[u8] = include_bytes!(env!("STRATA_INIT"));
/// How long a killed init and all it holds may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an init that should be there may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why an init, or what it was to start, did not start.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The init could not be talked to.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The machine refused while the start was prepared.
    #[error("cannot {what}: {source}")]
    Host {
        /// What was being done.
        what: &'static str,
        source: io::Error,
    },
    /// The program cannot be run.
    #[error("{program:?}: {}", exec_reason(*errno))]
    Exec {
        /// The first word of the command.
        program: String,
        errno: i32,
    },
    /// The directory to start in cannot be entered.
    #[error("{dir:?}: {}", path_reason(*errno))]
    Directory { dir: String, errno: i32 },
    /// The lease of what a server assigned has ended.
    #[error("the lease of this node has ended: it may run elsewhere")]
    LeaseEnded,
    /// A step inside the cell failed.
    #[error("cannot {}: {}", step_name(*step), reason(*errno))]
    Step {
        /// One of the protocol's steps.
        step: u32,
        errno: i32,
    },
    /// What it was to be held to was refused.
    #[error("it cannot be confined: {}", reason(*errno))]
    Confine { errno: i32 },
    /// The root a cell was handed could not be made.
    #[error("cannot {what}: {}", reason(*errno))]
    SetupRoot {
        /// What was being done.
        what: String,
        errno: i32,
    },
    /// More words and variables than an init takes.
    #[error(
        "has too many words: with the environment, {} is the most",
        wire::MAX_WORDS
    )]
    Words,
    /// The cell holds as many running executables as its init can look after.
    #[error(
        "the cell has {} running executables, which is the most",
        wire::MAX_RUNS
    )]
    Full,
}

impl InitError {
    /// Whether the kernel has no place for a further process: a limit on their
    /// number is reached.
    pub fn is_out_of_processes(&self) -> bool {
        let Self::Step { step, errno } = self else {
            return false;
        };
        *step == wire::STEP_CLONE && *errno == libc::EAGAIN
    }
}

fn reason(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}

/// Why a path was refused. The init follows no link of `/proc` that stands
/// for an open file, and lets no path end outside of the root.
fn path_reason(errno: i32) -> String {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::LOOP => {
            "leads through an open file of a process, or through too many links".into()
        }
        rustix::io::Errno::XDEV => "is outside of the root".into(),
        _ => reason(errno),
    }
}

fn exec_reason(errno: i32) -> String {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::NOENT => "no such file".into(),
        rustix::io::Errno::ACCESS => "not executable".into(),
        rustix::io::Errno::NOEXEC => "not a program: exec format error".into(),
        _ => path_reason(errno),
    }
}

fn step_name(step: u32) -> &'static str {
    match step {
        wire::STEP_FILES => "prepare the log files",
        wire::STEP_CLONE => "make a new process",
        wire::STEP_CGROUP => "enter the cell's cgroup",
        wire::STEP_IDENTITY => "become the user asked for",
        wire::STEP_MOUNTS => "make the cell's mounts",
        wire::STEP_NETWORK => "make the cell's network",
        wire::STEP_CONFINE => "confine it",
        wire::STEP_LEASE => "hold the lease",
        _ => "start it",
    }
}

fn host(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> InitError {
    move |errno| InitError::Host {
        what,
        source: errno.into(),
    }
}

/// The init's program in memory, sealed: nothing in a cell can rewrite it.
#[derive(Debug)]
pub struct InitImage(OwnedFd);

impl InitImage {
    /// Puts the program into memory.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(rustix::fs::memfd_create("strata-init", flags)?);
        file.write_all(IMAGE)?;
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        // Out of the way of the place where an init finds its socket.
        let clear_of_listen = wire::LISTEN_FD + 1;
        Ok(Self(rustix::io::fcntl_dupfd_cloexec(
            &file,
            clear_of_listen,
        )?))
    }
}

/// Until when what a server assigned may run here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lease {
    /// None was granted: nothing may be started under it.
    #[default]
    Unset,
    /// To this time of the boot clock.
    Until(Duration),
    /// Without end: it was promised that nothing is started elsewhere.
    Waived,
}

impl Lease {
    fn on_wire(self) -> u64 {
        match self {
            Self::Unset => 0,
            Self::Until(end) => u64::try_from(end.as_nanos()).unwrap_or(wire::LEASE_WAIVED - 1),
            Self::Waived => wire::LEASE_WAIVED,
        }
    }

    fn from_wire(end: u64) -> Self {
        match end {
            0 => Self::Unset,
            wire::LEASE_WAIVED => Self::Waived,
            end => Self::Until(Duration::from_nanos(end)),
        }
    }
}

/// The end of a lease in memory that all inits of cells share which it holds
/// for. It outlives the daemon for as long as one of them watches it.
#[derive(Debug)]
pub struct LeaseFile {
    file: File,
    /// The same, for reading alone.
    shown: OwnedFd,
}

impl LeaseFile {
    /// A file of its own, which is empty yet.
    pub fn new() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("strata-lease", MemfdFlags::CLOEXEC)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let shown = rustix::fs::open(path, flags, Mode::empty())?;
        let file = Self {
            file: File::from(file),
            shown,
        };
        file.set(Lease::Unset)?;
        Ok(file)
    }

    pub fn set(&self, lease: Lease) -> io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        // One aligned word: a reader has the old one or the new one.
        self.file.write_all_at(&lease.on_wire().to_ne_bytes(), 0)
    }
}

/// An init that has been reached.
#[derive(Debug)]
pub struct StartedInit {
    pub init: CellInit,
    /// What it sends unrequested.
    pub events: InitEvents,
}

/// An init that answers. Dropping this leaves it running.
#[derive(Debug)]
pub struct CellInit {
    /// Where its socket is.
    dir: PathBuf,
    /// None after an error: an answer that comes late must not be taken for
    /// that of the next request.
    link: Mutex<Option<InitLink>>,
    pid: i32,
    pidfd: OwnedFd,
    /// It can watch a lease.
    watches_lease: bool,
}

impl CellInit {
    /// Reaches an init that runs already, by the directory its socket is in.
    pub fn connect(dir: &Path) -> Result<StartedInit, InitError> {
        Self::greet(dir, InitLink::connect(dir)?)
    }

    /// The same, giving up soon on one that does not answer.
    pub fn connect_soon(dir: &Path) -> Result<StartedInit, InitError> {
        Self::greet(dir, InitLink::connect_within(dir, CONNECT_TIMEOUT)?)
    }

    fn greet(dir: &Path, link: InitLink) -> Result<StartedInit, InitError> {
        let (answer, events) = link.hello()?;
        if answer.reply.error != 0 {
            let (step, errno) = (answer.reply.step, answer.reply.error);
            return Err(InitError::Step { step, errno });
        }
        let pidfd = answer.fd.ok_or(LinkError::Nonsense)?;
        let init = Self {
            dir: dir.to_owned(),
            link: Mutex::default(),
            pid: answer.pid,
            pidfd,
            watches_lease: answer.reply.detail & wire::WATCHES_LEASE != 0,
        };
        Ok(StartedInit { init, events })
    }

    /// Starts the shim: the parent of all outermost cells, without
    /// namespaces, in a session of its own so that no terminal reaches it.
    #[allow(unsafe_code)]
    pub fn start_shim(
        image: &InitImage,
        dir: &Path,
        cgroup: &Cgroup,
    ) -> Result<StartedInit, InitError> {
        let socket = listen(dir)?;
        let join = cgroup.join().map_err(host("open the shim's cgroup"))?;
        let listen_fd = socket.as_raw_fd();
        let program = format!("/proc/self/fd/{}", image.0.as_raw_fd());
        let mut command = Command::new(program);
        command
            .arg0("strata-init")
            .args(["keeper", "0"])
            .env_clear();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let tasks = join.tasks_files().map_err(host("open the shim's cgroup"))?;
        // SAFETY: only system calls that are safe between fork and exec; the
        // descriptors outlive the call.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                for file in &tasks {
                    rustix::io::write(file, b"0")?;
                }
                let from = BorrowedFd::borrow_raw(listen_fd);
                let mut to = std::mem::ManuallyDrop::new(
                    <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(wire::LISTEN_FD),
                );
                if listen_fd == wire::LISTEN_FD {
                    rustix::io::fcntl_setfd(&*to, rustix::io::FdFlags::empty())?;
                } else {
                    rustix::io::dup2(from, &mut to)?;
                }
                // `nohup` and the like must not reach into cells: a signal
                // that is ignored stays so through every exec.
                for signal in 1..=64 {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command.spawn().map_err(|source| InitError::Host {
            what: "start the shim",
            source,
        })?;
        drop(socket);
        Self::connect(dir)
    }

    /// Has this init start the init of a cell inside it.
    pub fn start_cell(
        &self,
        image: &InitImage,
        spec: &CellSpec,
        dir: &Path,
        cgroup: &Cgroup,
    ) -> Result<StartedInit, InitError> {
        let socket = listen(dir).map_err(birth)?;
        let join = cgroup.join().map_err(host("open the cell's cgroup"))?;
        let (flags, root) = init_flags(spec);
        let payload = texts(
            "/",
            [
                "strata-init",
                &spec.name.to_string(),
                &flags.to_string(),
                root,
            ],
        );
        let maps = spec.id_map.map(UserMaps::new).transpose()?;
        let map_flag = maps.as_ref().map_or(0, |_| wire::USER_NAMESPACE);
        let lease_flag = match cgroup.is_fenced() {
            true => wire::UNDER_LEASE,
            false => 0,
        };
        let request = Request {
            magic: MAGIC,
            kind: wire::SPAWN_CELL,
            flags: join.flags() | map_flag | lease_flag,
            namespaces: namespaces(spec),
            argc: 4,
            ..Request::default()
        };
        let mut fds = vec![image.0.as_fd(), socket.as_fd()];
        fds.extend(maps.as_ref().map(UserMaps::waiting));
        fds.extend(join.fds());
        let answer = self.with_link(|link| link.ask(&request, &payload, &fds))?;
        if answer.reply.error != 0 {
            let (step, errno) = (answer.reply.step, answer.reply.error);
            return Err(match step {
                wire::STEP_LEASE => InitError::LeaseEnded,
                _ => InitError::Step { step, errno },
            });
        }
        drop(socket);
        if let Some(maps) = maps {
            maps.write(answer.pid)?;
        }
        Self::connect(dir).map_err(|error| {
            // Whatever came of it must not stay behind unknown.
            if let Some(pidfd) = &answer.fd {
                let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
            }
            match error {
                InitError::Link(error) => birth(error),
                error => error,
            }
        })
    }

    /// Has this init start an executable; answers its pid as this process
    /// sees it. Comes back once it runs.
    pub fn start(&self, launch: &Launch<'_>) -> Result<i32, InitError> {
        let spec = launch.spec;
        let join = launch.group.join().map_err(host("open the run's cgroup"))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(launch.dir, flags, Mode::empty())
            .map_err(host("open the run's directory"))?;
        let (request, payload) = run_request(launch, join.flags());
        let mut fds = vec![dir.as_fd()];
        fds.extend(launch.stdio.fds());
        fds.extend(join.fds());
        let answer = self.with_link(|link| link.ask(&request, &payload, &fds))?;
        let (step, errno) = (answer.reply.step, answer.reply.error);
        match step {
            _ if errno == 0 => {}
            wire::STEP_EXEC => {
                return Err(InitError::Exec {
                    program: spec.command.program().to_owned(),
                    errno,
                });
            }
            wire::STEP_DIR => {
                let dir = spec.working_directory.clone().unwrap_or_default();
                return Err(InitError::Directory { dir, errno });
            }
            wire::STEP_RUN if errno == libc::EINVAL => return Err(InitError::Words),
            wire::STEP_RUN => return Err(InitError::Full),
            wire::STEP_CONFINE => return Err(InitError::Confine { errno }),
            wire::STEP_LEASE => return Err(InitError::LeaseEnded),
            _ => return Err(InitError::Step { step, errno }),
        }
        Ok(answer.pid)
    }

    /// Moves the end of the lease that this shim holds: from then on it ends
    /// all marked groups below `root`. One of an earlier release closes the
    /// connection.
    pub fn set_lease(&self, lease: Lease, root: &Cgroup) -> Result<(), InitError> {
        let root = root.open_members().map_err(|error| InitError::Host {
            what: "open the cgroups under lease",
            source: io::Error::other(error.to_string()),
        })?;
        let request = Request {
            magic: MAGIC,
            kind: wire::SET_LEASE,
            run: lease.on_wire(),
            ..Request::default()
        };
        // A connection of its own: others wait for starts meanwhile.
        let link = InitLink::connect_within(&self.dir, CONNECT_TIMEOUT)?;
        let answer = link.ask(&request, &[], &[root.as_fd()])?;
        match (answer.reply.step, answer.reply.error) {
            (_, 0) => Ok(()),
            (step, errno) => Err(InitError::Step { step, errno }),
        }
    }

    /// Has this init of a cell end with the lease of this file, or with none.
    /// The same again is fine. One of an earlier release cannot, and goes on as
    /// before: then only the shim ends its cell.
    pub fn watch_lease(&self, lease: Option<&LeaseFile>) -> Result<(), InitError> {
        if !self.watches_lease {
            return Ok(());
        }
        let request = Request {
            magic: MAGIC,
            kind: wire::WATCH_LEASE,
            ..Request::default()
        };
        let file = lease.map(|lease| lease.shown.as_fd());
        let link = InitLink::connect_within(&self.dir, CONNECT_TIMEOUT)?;
        let answer = link.ask(&request, &[], file.as_slice())?;
        match (answer.reply.step, answer.reply.error) {
            (_, 0) => Ok(()),
            (step, errno) => Err(InitError::Step { step, errno }),
        }
    }

    /// The lease that this shim holds.
    pub fn lease(&self) -> Result<Lease, InitError> {
        let link = InitLink::connect_within(&self.dir, CONNECT_TIMEOUT)?;
        Ok(Lease::from_wire(link.lease()?))
    }

    /// Its pid as this process sees it.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// One of its namespaces: `net`, `user`, `mnt`.
    pub fn namespace(&self, kind: &str) -> io::Result<OwnedFd> {
        let path = format!("/proc/{}/ns/{kind}", self.pid);
        self.own(&path, OFlags::RDONLY)
    }

    /// Leaves all memory out of the cores of what it starts from now on. The
    /// setting is one of the address space: runs are born into that of the init
    /// and take the setting through exec.
    pub fn leave_memory_out_of_cores(&self) -> io::Result<()> {
        let path = format!("/proc/{}/coredump_filter", self.pid);
        let file = self.own(&path, OFlags::WRONLY)?;
        rustix::io::write(file, b"0")?;
        Ok(())
    }

    /// The root directory it sees, to look at and not to write to.
    pub fn root(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/{}/root", self.pid);
        self.own(&path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens a file of `/proc` that is about this very process: the pid may
    /// be another's by the time it is opened, but not while this one lives.
    fn own(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
        match self.is_alive() {
            true => Ok(file),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Sends the init a request and waits for its answer.
    pub(crate) fn ask(
        &self,
        request: &Request,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<wire::Reply, InitError> {
        let answer = self.with_link(|link| link.ask(request, payload, fds))?;
        Ok(answer.reply)
    }

    /// Sends a signal to the process group of a run.
    pub fn signal(&self, run: u64, signal: i32) -> Result<(), LinkError> {
        self.with_link(|link| link.signal(run, signal, false))
    }

    /// Sends a signal to the process of a run alone.
    pub fn signal_process(&self, run: u64, signal: i32) -> Result<(), LinkError> {
        self.with_link(|link| link.signal(run, signal, true))
    }

    /// The input of a run that was started with one ends, once no process has
    /// it open for writing any more.
    pub fn end_input(&self, run: u64) -> Result<(), LinkError> {
        self.with_link(|link| link.end_input(run))
    }

    /// Our end of the terminal of a run that was started with a logged one. The
    /// init keeps it, so that it is there whichever daemon requests it.
    pub fn terminal(&self) -> io::Result<OwnedFd> {
        use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
        for entry in std::fs::read_dir(format!("/proc/{}/fdinfo", self.pid))? {
            let entry = entry?;
            // The kernel reports this of that end of a terminal alone.
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let number = entry.file_name().to_string_lossy().parse();
            if text.lines().any(|line| line.starts_with("tty-index:"))
                && let Ok(number) = number
            {
                let flags = PidfdGetfdFlags::empty();
                return Ok(pidfd_getfd(&self.pidfd, number, flags)?);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The runs this init has, each with its pid.
    pub fn runs(&self) -> Result<Vec<(u64, i32)>, LinkError> {
        self.with_link(InitLink::list)
    }

    /// Ends the init at once, and with it every process of its namespace.
    /// Comes back when all of them are gone.
    pub fn kill(&self) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        wait_gone(self.pidfd.as_fd())
    }

    /// Whether the process is there, answering or not.
    pub fn is_alive(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut ended, Some(&now)), Ok(0))
    }

    /// Talks to the init, over the connection there is or a new one.
    fn with_link<T>(
        &self,
        talk: impl FnOnce(&InitLink) -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let mut current = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let link = match current.take() {
            Some(link) => link,
            None => InitLink::connect(&self.dir)?,
        };
        let answer = talk(&link)?;
        *current = Some(link);
        Ok(answer)
    }
}

/// The new cell's own connection failed, not that to the init that started it.
fn birth(error: LinkError) -> InitError {
    InitError::Host {
        what: "reach the new cell's init",
        source: io::Error::other(error),
    }
}

/// Waits for the end of a process, and takes its exit status if it is ours. One
/// that hangs in the kernel is not waited for forever.
fn wait_gone(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let max_wait = Timespec {
        tv_sec: KILL_TIMEOUT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    loop {
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&max_wait)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "a process of it was killed and does not end; it hangs in the kernel",
                ));
            }
            Ok(_) => break,
        }
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match rustix::process::waitid(WaitId::PidFd(pidfd), options) {
        Ok(_) | Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The maps of a user namespace, which its first process waits for.
struct UserMaps {
    map: IdMap,
    waiting: OwnedFd,
    done: OwnedFd,
}

impl UserMaps {
    fn new(map: IdMap) -> Result<Self, InitError> {
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (waiting, done) = pipe.map_err(host("make a pipe"))?;
        Ok(Self { map, waiting, done })
    }

    fn waiting(&self) -> BorrowedFd<'_> {
        self.waiting.as_fd()
    }

    /// Writes the maps and lets the process go on.
    fn write(self, pid: i32) -> Result<(), InitError> {
        let map = format!("0 {} {}\n", self.map.first, self.map.count);
        for file in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{pid}/{file}"), &map).map_err(|source| {
                InitError::Host {
                    what: "write the maps of the user namespace",
                    source,
                }
            })?;
        }
        drop(self.done);
        Ok(())
    }
}

fn namespaces(spec: &CellSpec) -> u64 {
    let own = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    let asked = |asked: bool, flag: i32| if asked { flag } else { 0 };
    let network = asked(spec.isolated_network, libc::CLONE_NEWNET);
    let user = asked(spec.id_map.is_some(), libc::CLONE_NEWUSER);
    u64::from((own | network | user).cast_unsigned())
}

fn init_flags(spec: &CellSpec) -> (u32, &str) {
    let network = if spec.isolated_network {
        wire::INIT_NETWORK
    } else {
        0
    };
    let (root, dir) = match &spec.root {
        RootMode::Host => (0, ""),
        RootMode::ReadOnly => (wire::INIT_READ_ONLY, ""),
        RootMode::Private => (wire::INIT_PRIVATE, ""),
        RootMode::Directory(dir) => (wire::INIT_ROOT_DIR, dir.as_str()),
        RootMode::Handed => (wire::INIT_HANDED, ""),
    };
    (wire::INIT_CELL | network | root, dir)
}

impl CgroupEntry {
    fn flags(&self) -> u32 {
        match self {
            Self::Tasks(_) => 0,
            Self::Directory(_) => wire::CGROUP_V2,
        }
    }
}
