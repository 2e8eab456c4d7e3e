//! Runs a program for a short while and keeps its output. The output is the
//! result, not the exit status: where this process is PID 1, another part of it
//! may be the one that waits for children.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// How much is kept of each stream.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Seconds of cpu: should we die while it runs, it does not run forever.
const CPU: u64 = 10;

/// The output of a program.
#[derive(Debug, Default)]
pub(crate) struct ProgramOutput {
    pub(crate) output: String,
    errors: String,
    in_time: bool,
}

/// What became of the tiny guest.
#[derive(Debug)]
pub(crate) enum Outcome {
    Works,
    Fails(String),
}

impl ProgramOutput {
    pub(crate) fn outcome(&self, expected: &str) -> Outcome {
        if self.output.trim() == expected {
            return Outcome::Works;
        }
        Outcome::Fails(self.shown())
    }

    /// The first line of its output, for messages.
    pub(crate) fn shown(&self) -> String {
        let lines = self.errors.lines().chain(self.output.lines());
        match lines.map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => line.to_owned(),
            None if self.in_time => "it ended without a word".to_owned(),
            None => "the guest hangs".to_owned(),
        }
    }
}

/// Runs a program until it closes its output or the time is up. It is gone
/// when this returns.
pub(crate) fn run(
    program: &Path,
    words: &[&str],
    stdin: Option<File>,
    within: Duration,
) -> io::Result<ProgramOutput> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let limit = Rlimit {
        current: Some(CPU),
        maximum: Some(CPU),
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let said = prlimit(pid, Resource::Cpu, limit)
        .map_err(Into::into)
        .and_then(|_| listen(&mut child, Instant::now() + within));
    // It may have ended, and another thread may have noticed.
    let _ = child.kill();
    let _ = child.wait();
    said
}

fn listen(child: &mut Child, deadline: Instant) -> io::Result<ProgramOutput> {
    let mut streams = [
        child
            .stdout
            .take()
            .map(|stream| File::from(OwnedFd::from(stream))),
        child
            .stderr
            .take()
            .map(|stream| File::from(OwnedFd::from(stream))),
    ];
    let mut kept = [Vec::new(), Vec::new()];
    let mut in_time = true;
    while streams.iter().any(Option::is_some) {
        let left = deadline.saturating_duration_since(Instant::now());
        let open: Vec<BorrowedFd<'_>> = streams.iter().flatten().map(AsFd::as_fd).collect();
        if left.is_zero() || !wait(&open, left)? {
            in_time = false;
            break;
        }
        for (stream, kept) in streams.iter_mut().zip(&mut kept) {
            let Some(file) = stream else { continue };
            if !wait(&[file.as_fd()], Duration::ZERO)? {
                continue;
            }
            let mut buffer = [0; 1024];
            let read = file.read(&mut buffer)?;
            kept.extend_from_slice(
                &buffer[..read.min(MAX_OUTPUT_BYTES.saturating_sub(kept.len()))],
            );
            if read == 0 {
                *stream = None;
            }
        }
    }
    let [output, errors] = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(ProgramOutput {
        output,
        errors,
        in_time,
    })
}

/// Whether any can be read, or has ended, before the time is up.
fn wait(files: &[BorrowedFd<'_>], within: Duration) -> io::Result<bool> {
    let mut files: Vec<PollFd<'_>> = files
        .iter()
        .map(|file| PollFd::new(file, PollFlags::IN))
        .collect();
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut files, Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        // A signal for another thread; the caller looks at the clock again.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
