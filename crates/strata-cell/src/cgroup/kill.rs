//! Ending all members of a group, including those that fork meanwhile.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a killed process may take to be gone; one that hangs in the
/// kernel longer than this is reported, not waited for.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Forks race with kills; each round there are fewer.
const ROUNDS: usize = 1000;

/// Kills until no process is left. A group that is gone has no members.
pub(super) fn kill_members(dir: &Path) -> io::Result<()> {
    let mut stopped_forks = false;
    for _ in 0..ROUNDS {
        let members = members(dir)?;
        if members.is_empty() {
            return Ok(());
        }
        if !stopped_forks {
            // One write ends all of a v2 group; where there is no such file,
            // a limit of nothing keeps a fork bomb from outrunning us.
            if fs::write(dir.join("cgroup.kill"), "1").is_err() {
                let _ = fs::write(dir.join("pids.max"), "0");
            }
            stopped_forks = true;
        }
        wait_all(&kill_all(dir, members)?)?;
    }
    Err(io::Error::new(
        ErrorKind::TimedOut,
        "processes keep appearing",
    ))
}

fn members(dir: &Path) -> io::Result<Vec<Pid>> {
    match fs::read_to_string(dir.join("cgroup.procs")) {
        // 0 stands for a process outside of our view of the machine.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|l| Pid::from_raw(l.parse().ok()?))
            .collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Kills by pidfd, and only a process that is still a member once it is open:
/// the pid may belong to another process by then.
fn kill_all(dir: &Path, pids: Vec<Pid>) -> io::Result<Vec<OwnedFd>> {
    let open = |pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?));
    let opened: Vec<(Pid, OwnedFd)> = pids.into_iter().filter_map(open).collect();
    let still = members(dir)?;
    let ours = opened.into_iter().filter(|(pid, _)| still.contains(pid));
    Ok(ours
        .map(|(_, pidfd)| {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            pidfd
        })
        .collect())
}

fn wait_all(pidfds: &[OwnedFd]) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: KILL_TIMEOUT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    for pidfd in pidfds {
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "a killed process does not end",
                ));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
