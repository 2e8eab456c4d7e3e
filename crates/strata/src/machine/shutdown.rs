//! Shutdown of a host: processes are terminated, then killed, and file systems
//! are unmounted.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::time::{sleep, timeout};

use super::{reap, say};

/// Time between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// Timeout for killed processes to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Poll interval: PID 1 is notified of its own children alone, and most
/// processes are children of a cell's init.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The program of every cell's init, and of their keeper.
const CELL_INIT: &str = "/memfd:strata-init (deleted)";

/// SIGTERM to every process, a grace period, SIGKILL to those left.
pub(super) async fn end_all() {
    for process in Process::all() {
        // An init forwards the signal to what it runs: no process receives it
        // twice, which many treat as a request to end at once.
        if process.is_cell_init || !process.is_in_cell {
            let _ = kill_process(process.pid, Signal::TERM);
        }
    }
    // Inits end with their machine, not before.
    let ended = wait_while(STOP_GRACE, |process| !process.is_cell_init).await;
    if let Err(left) = ended {
        say(&format!("{} did not exit in time, killed", left.join(", ")));
    }
    // To all but PID 1 itself, at once, so that no process forks away from it.
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
    if let Err(left) = wait_while(KILL_TIMEOUT, |_| true).await {
        say(&format!("{} cannot be killed", left.join(", ")));
    }
}

/// Waits until no process is `counted` any more; the names of those that are
/// after `patience`.
async fn wait_while(
    max_wait: Duration,
    counted: impl Fn(&Process) -> bool,
) -> Result<(), Vec<String>> {
    let left = || {
        Process::all()
            .into_iter()
            .filter(|process| counted(process))
    };
    let gone = async {
        loop {
            reap();
            if left().next().is_none() {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    match timeout(max_wait, gone).await {
        Ok(()) => Ok(()),
        Err(_) => Err(left().map(|process| process.name()).collect()),
    }
}

/// A process of user space that is not over.
struct Process {
    pid: Pid,
    is_cell_init: bool,
    is_in_cell: bool,
}

impl Process {
    /// All but this one.
    fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != 1)
            .filter_map(Self::look_at)
            .collect()
    }

    fn look_at(pid: i32) -> Option<Self> {
        // What has no program is the kernel's own, or over.
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self {
            pid: Pid::from_raw(pid)?,
            is_cell_init: program.as_os_str() == CELL_INIT,
            is_in_cell: is_below(&status),
        })
    }

    fn name(&self) -> String {
        let pid = self.pid;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} ({pid})", name.trim())
    }
}

/// Whether a process has a pid in a namespace below ours too.
fn is_below(status: &str) -> bool {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_some_and(|pids| pids.split_whitespace().count() > 1)
}

/// Writes out what is on disks, and leaves nothing open there.
pub(super) fn release_disks() {
    rustix::fs::sync();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for directory in on_disks(&mounts).rev() {
        if let Err(error) = release(&directory) {
            say(&format!("cannot unmount {directory}: {error}"));
        }
    }
}

/// What is in use, the root for one, can still be made read-only.
fn release(directory: &str) -> io::Result<()> {
    if unmount(directory, UnmountFlags::NOFOLLOW).is_ok() {
        return Ok(());
    }
    mount_remount(directory, MountFlags::RDONLY, c"")?;
    Ok(())
}

/// The directories on which something other than the kernel's own is mounted, in
/// the order they were.
fn on_disks(mounts: &str) -> impl DoubleEndedIterator<Item = String> {
    mounts.lines().filter_map(|line| {
        let (source, rest) = line.split_once(' ')?;
        let directory = rest.split(' ').next()?;
        source
            .starts_with('/')
            .then(|| directory.replace("\\040", " "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_a_disk_is_released() {
        let mounts = "\
rootfs / rootfs rw 0 0
proc /proc proc rw 0 0
/dev/vda1 / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/vdb /my\\040data btrfs rw 0 0
";
        let found: Vec<_> = on_disks(mounts).collect();
        assert_eq!(found, ["/", "/my data"]);
    }

    #[test]
    fn a_process_in_a_cell_has_two_pids() {
        assert!(is_below("Name:\tsh\nNSpid:\t312\t7\n"));
        assert!(!is_below("Name:\tsh\nNSpid:\t312\n"));
        assert!(!is_below(""));
    }
}
