//! The process of a daemon: started until it reports that it serves, and ended.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::cli::pid_of;
use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

pub(super) fn end(mut child: Child) -> (ExitStatus, Duration) {
    let begin = Instant::now();
    kill_process(pid_of(&child), Signal::TERM).expect("a child can be told");
    let status = wait_for_blocking("the daemon to end", TEST_TIMEOUT, || {
        let status = child.try_wait().map_err(|error| error.to_string())?;
        status.ok_or_else(|| "it runs".to_owned())
    });
    (status, begin.elapsed())
}

/// Starts the command and reads the line that reports it.
pub(super) fn start(mut command: Command) -> Result<(Child, String), String> {
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().ok_or("it has no output")?;
    let (lines, first) = mpsc::channel();
    // Goes on reading, so that the daemon's output never breaks.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
    match first.recv_timeout(TEST_TIMEOUT) {
        Ok(ready) => Ok((child, ready)),
        Err(error) => {
            let _ = child.kill();
            let status = child.wait().map_err(|error| error.to_string())?;
            Err(format!("{error}; {status}"))
        }
    }
}
