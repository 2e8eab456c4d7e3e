//! Death at a chosen step: the calls of a daemon to the kernel are followed
//! with strace, and at one of them the daemon is killed.
//!
//! Only calls that change the world count, each with its kind: the third
//! rename, the fifth message to the network's part of the kernel. Each is
//! held up for a moment after it is done, so that the kill falls before
//! whatever the same thread does next.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::pid_of;
use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

/// Calls that are held up. A tenth of a second in all for an operation.
const DELAYED_CALLS: &str = "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,symlinkat,\
    linkat,mknodat,fsopen,fsconfig,fsmount,move_mount,open_tree,mount_setattr,mount,sendmsg,\
    sendto,bind,setns,unshare,clone,clone3";
/// Calls that come too often for that; only some of them change anything.
const TRACED_CALLS: &str = "openat,write,writev";
const HOLD_MICROSECONDS: u32 = 3000;
const DETACH_TIMEOUT: Duration = Duration::from_millis(300);

/// The n-th call of a kind, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// As the kernel calls it, or what it is about.
    pub call: String,
    /// Which of them.
    pub number: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.call, self.number)
    }
}

/// What was seen of a daemon's calls.
#[derive(Debug, Default)]
pub struct TracedCalls {
    /// How often each kind of call was made.
    pub counts: BTreeMap<String, usize>,
    /// The very call at which the daemon was killed.
    pub struck: Option<String>,
}

impl TracedCalls {
    /// All steps, or `most` of each kind, spread evenly.
    pub fn steps(&self, most: usize) -> Vec<Step> {
        let of_kind = |(call, count): (&String, &usize)| {
            let taken = (*count).min(most);
            let numbers = (0..taken).map(|i| 1 + i * count / taken.max(1));
            let call = call.clone();
            numbers
                .map(|number| Step {
                    call: call.clone(),
                    number,
                })
                .collect::<Vec<_>>()
        };
        self.counts.iter().flat_map(of_kind).collect()
    }
}

/// Follows the calls of a daemon.
#[derive(Debug)]
pub struct Tracer {
    strace: Child,
    reader: Option<JoinHandle<TracedCalls>>,
}

impl Tracer {
    /// Follows the calls of the daemon `pid`, and kills it right after `step`
    /// if there is one.
    ///
    /// # Panics
    /// When strace cannot follow it.
    pub fn attach(pid: u32, data_dir: &Path, step: Option<Step>) -> Self {
        let trace = format!("trace={DELAYED_CALLS},{TRACED_CALLS}");
        let inject = format!("inject={DELAYED_CALLS}:delay_exit={HOLD_MICROSECONDS}");
        let mut strace = Command::new("strace")
            .args(["-f", "-qq", "-yy", "-s", "32", "-b", "execve"])
            .args(["-e", &trace, "-e", &inject, "-o", "/dev/stdout"])
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace can be run");
        let output = strace.stdout.take().expect("it has an output");
        let counter = Counter {
            daemon: pid,
            data_dir: data_dir.to_string_lossy().into_owned(),
            step,
            begun: HashMap::new(),
            seen: TracedCalls::default(),
        };
        let reader = std::thread::spawn(move || counter.read(output));
        let mut tracer = Self {
            strace,
            reader: Some(reader),
        };
        wait_for_blocking("strace to follow the daemon", TEST_TIMEOUT, || {
            tracer.follows(pid)
        });
        tracer
    }

    /// Whether every thread is followed.
    fn follows(&mut self, pid: u32) -> Result<(), String> {
        if let Ok(Some(status)) = self.strace.try_wait() {
            return Err(format!("it ended: {status}"));
        }
        let tracer = format!("TracerPid:\t{}\n", self.strace.id());
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
        for thread in threads.flatten() {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            if !status.contains(&tracer) {
                return Err(format!("{:?} is not followed", thread.file_name()));
            }
        }
        Ok(())
    }

    /// Follows no more; what was seen.
    ///
    /// # Panics
    /// When strace does not detach.
    pub fn finish(mut self) -> TracedCalls {
        self.detach();
        let reader = self.reader.take().expect("it is read once");
        reader.join().expect("reading does not panic")
    }

    /// On request, it detaches from the living; of the dead it may wait for
    /// events that never come.
    fn detach(&mut self) {
        let begin = Instant::now();
        wait_for_blocking("strace to detach", TEST_TIMEOUT, || {
            let signal = match begin.elapsed() > DETACH_TIMEOUT {
                true => Signal::KILL,
                false => Signal::TERM,
            };
            match self.strace.try_wait() {
                Ok(None) => {
                    let _ = kill_process(pid_of(&self.strace), signal);
                    Err("it runs".to_owned())
                }
                _ => Ok(()),
            }
        });
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Counts the calls of one daemon.
struct Counter {
    daemon: u32,
    data_dir: String,
    step: Option<Step>,
    /// Calls that were begun, by thread.
    begun: HashMap<u32, String>,
    seen: TracedCalls,
}

impl Counter {
    fn read(mut self, output: impl Read) -> TracedCalls {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(whole) = self.join(&line) {
                self.take(whole);
            }
        }
        self.seen
    }

    /// The whole of a call of the daemon's own, once it is done.
    fn join(&mut self, line: &str) -> Option<String> {
        let (thread, text) = line.trim_start().split_once(' ')?;
        let thread: u32 = thread.parse().ok()?;
        let text = text.trim_start();
        if let Some(begin) = text.strip_suffix("<unfinished ...>") {
            self.begun.insert(thread, begin.to_owned());
            return None;
        }
        let whole = match text.strip_prefix("<... ") {
            Some(rest) => self.begun.remove(&thread)? + rest,
            None => text.to_owned(),
        };
        // Children before their exec are followed too, and are not meant.
        let own = format!("/proc/{}/task/{thread}", self.daemon);
        Path::new(&own).exists().then_some(whole)
    }

    fn take(&mut self, call: String) {
        let Some(kind) = self.kind(&call) else {
            return;
        };
        let count = self.seen.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        let reached = self
            .step
            .as_ref()
            .is_some_and(|step| step.call == kind && step.number == *count);
        if reached && self.seen.struck.is_none() {
            let pid = Pid::from_raw(self.daemon.cast_signed()).expect("it has a pid");
            let _ = kill_process(pid, Signal::KILL);
            self.seen.struck = Some(call);
        }
    }

    /// What a call is about; none when it changes nothing.
    fn kind(&self, call: &str) -> Option<&'static str> {
        let (name, rest) = call.split_once('(')?;
        if name == "openat" {
            return rest.contains("O_CREAT").then_some("create");
        }
        if name == "write" || name == "writev" {
            let cgroup = rest.contains("</sys/fs/cgroup");
            let kept = rest.contains(&self.data_dir) && !rest.contains("/log/");
            let answer = rest.contains("<UNIX") || rest.contains("<TCP");
            return match (cgroup, kept, answer) {
                (true, ..) => Some("write to a cgroup"),
                (_, true, _) => Some("write to a file"),
                (.., true) => Some("answer"),
                _ => None,
            };
        }
        if name.starts_with("send") {
            return Some(match rest.contains("<NETLINK") {
                true => "netlink",
                false => "message",
            });
        }
        let held = DELAYED_CALLS.split(',').map(str::trim);
        held.into_iter().find(|known| *known == name)
    }
}
