//! What it takes to start an executable, and how it is sent to an init.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use strata_types::{EnvironmentVariable, ExecutableSpec};

use crate::cgroup::RunGroup;
use crate::wire::{self, MAGIC, Request};

/// The default `PATH` of a process.
const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How much of an executable's output is kept, for each of its channels.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// How large one file grows.
    pub segment_bytes: u64,
    /// How many files there are.
    pub segments: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            segments: 8,
        }
    }
}

/// All that is needed to start an executable.
#[derive(Debug)]
pub struct Launch<'a> {
    pub spec: &'a ExecutableSpec,
    /// The number of this run, not used before in its cell.
    pub run: u64,
    /// Where its status and its logs go.
    pub dir: &'a Path,
    /// How much is kept of its output.
    pub logs: LogLimits,
    /// The cgroup of this run.
    pub group: &'a RunGroup,
    /// What it reads and writes.
    pub stdio: Stdio<'a>,
    /// Whether it is held to the cell's [`crate::Confinement`].
    pub sandboxed: bool,
    /// Whether it is PID 1 of processes of its own, with mounts of its own:
    /// its end is the end of all that it started.
    pub as_init: bool,
    /// Whether signals for the cell's init are for this run, whose process
    /// gets them alone.
    pub main: bool,
    /// Whether it sees the control groups that the cell's init does.
    pub host_cgroups: bool,
    /// Variables instead of those of the specification that have the same
    /// names, and beside the others. No record has them.
    pub environment: &'a [EnvironmentVariable],
    /// The boot time from which on it must not be started any more.
    pub not_after: Option<Duration>,
}

/// What a process finds as its standard input, output and error.
#[derive(Clone, Copy, Debug)]
pub enum Stdio<'a> {
    /// Nothing to read; what it writes is logged.
    Logged,
    /// The named pipe `stdin` in its directory to read; what it writes is logged.
    LoggedWithInput,
    /// This file as its input, whatever it is; what it writes is logged.
    LoggedWithFile(BorrowedFd<'a>),
    /// These files; nothing is logged.
    Files([BorrowedFd<'a>; 3]),
    /// This terminal, which controls it; nothing is logged.
    Terminal(BorrowedFd<'a>),
    /// This terminal, which controls it, and the other end of that: what comes
    /// out of it is logged as output.
    LoggedTerminal(BorrowedFd<'a>, BorrowedFd<'a>),
}

impl Stdio<'_> {
    pub(crate) fn flags(&self) -> u32 {
        match self {
            Self::Logged => 0,
            Self::LoggedWithInput => wire::STDIN_FILE,
            Self::LoggedWithFile(_) => wire::INPUT,
            Self::Files(_) => wire::STDIO,
            Self::Terminal(_) => wire::STDIO | wire::TERMINAL,
            Self::LoggedTerminal(..) => wire::STDIO | wire::TERMINAL | wire::LOG_TERMINAL,
        }
    }

    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Logged | Self::LoggedWithInput => Vec::new(),
            Self::LoggedWithFile(file) => vec![*file],
            Self::Files(files) => files.to_vec(),
            Self::Terminal(terminal) => vec![*terminal; 3],
            Self::LoggedTerminal(theirs, ours) => vec![*theirs, *theirs, *theirs, *ours],
        }
    }
}

pub(crate) fn run_request(launch: &Launch<'_>, join_flags: u32) -> (Request, Vec<u8>) {
    let spec = launch.spec;
    let identity = &spec.identity;
    // A user without a group would keep root's.
    let gid = identity.gid.or(identity.uid);
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let own = |variable: &&EnvironmentVariable| {
        let other = |it: &EnvironmentVariable| it.key() == variable.key();
        !launch.environment.iter().any(other)
    };
    let given = spec.environment.iter().filter(own);
    let given: Vec<&EnvironmentVariable> = given.chain(launch.environment).collect();
    let path = (!given.iter().any(|v| v.key() == "PATH")).then_some(DEFAULT_PATH);
    let given = given.into_iter().map(EnvironmentVariable::as_str);
    let variables: Vec<&str> = path.into_iter().chain(given).collect();
    let words = spec.command.words();
    let request = Request {
        magic: MAGIC,
        kind: wire::SPAWN,
        run: launch.run,
        flags: join_flags
            | wire::LOST_BYTES
            | launch.stdio.flags()
            | flag(launch.sandboxed, wire::SANDBOXED)
            | flag(launch.main, wire::MAIN)
            | flag(launch.host_cgroups, wire::HOST_CGROUPS)
            | flag(identity.uid.is_some(), wire::SET_UID)
            | flag(gid.is_some(), wire::SET_GID)
            | flag(launch.not_after.is_some(), wire::NOT_AFTER),
        signal: launch.not_after.map_or(0, tenths),
        namespaces: namespaces(launch),
        uid: identity.uid.unwrap_or(0),
        gid: gid.unwrap_or(0),
        groups: identity.groups.len() as u32,
        argc: words.len() as u32,
        envc: variables.len() as u32,
        segments: launch.logs.segments,
        segment_bytes: launch.logs.segment_bytes,
    };
    let mut payload: Vec<u8> = identity
        .groups
        .iter()
        .flat_map(|g| g.to_ne_bytes())
        .collect();
    let dir = spec.working_directory.as_deref().unwrap_or("/");
    let all = words.iter().map(String::as_str).chain(variables);
    payload.extend(texts(dir, all));
    (request, payload)
}

/// A deadline as the init reads it: rather too early than too late.
fn tenths(deadline: Duration) -> i32 {
    i32::try_from(deadline.as_millis() / 100).unwrap_or(i32::MAX)
}

/// What it does not share with the cell.
fn namespaces(launch: &Launch<'_>) -> u64 {
    match launch.as_init {
        true => u64::from((libc::CLONE_NEWPID | libc::CLONE_NEWNS).cast_unsigned()),
        false => 0,
    }
}

/// Texts as the init reads them: each ended by NUL.
pub(crate) fn texts<'a>(dir: &'a str, words: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in std::iter::once(dir).chain(words) {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    bytes
}
