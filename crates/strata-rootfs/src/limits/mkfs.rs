//! `mkfs.ext4`, the only program of the host that roots need, and only for
//! file systems in files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::RootError;

const PROGRAM: &str = "mkfs.ext4";
/// Daemons are often started with a path that lacks these.
const DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];
/// An inode for every block: small files run out of room before they run out
/// of inodes, as on any other disk.
const BYTES_PER_INODE: u64 = 4096;
const INODE_SIZE: u64 = 256;
const JOURNAL_MIB: u64 = 4;
/// It takes milliseconds, also for terabytes: little is written.
const MKFS_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_MESSAGE: usize = 500;

/// How large the file must be for a file system that holds so many bytes.
/// What is never written takes no room, so tables for all inodes cost nothing.
pub(super) fn image_size(bytes: u64) -> u64 {
    const ROUND: u64 = 1 << 20;
    let with_inodes = bytes.saturating_add(bytes / (BYTES_PER_INODE / INODE_SIZE - 1));
    let groups = with_inodes / (128 << 20) + 1;
    let rest = ((JOURNAL_MIB + 1) << 20) + groups * 3 * 4096;
    with_inodes.saturating_add(rest).div_ceil(ROUND) * ROUND
}

pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(DIRS.iter().map(PathBuf::from))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(PROGRAM))
        .find(|program| program.is_file())
}

/// Makes a file system in this file, with a copy of `content` in it.
///
/// It has a journal: after a loss of power it mounts again, and what a pod
/// synced is there. Nothing is reserved for root, and nothing is written that
/// can be written later or never: the file is new, so it reads as zeros.
pub(super) fn format(image: &Path, content: &Path) -> Result<(), RootError> {
    let program = find().ok_or(RootError::Program {
        program: PROGRAM,
        output: "it is not there".into(),
    })?;
    let mut child = Command::new(program)
        .env_clear()
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0"])
        .args(["-I", &INODE_SIZE.to_string()])
        .args(["-i", &BYTES_PER_INODE.to_string()])
        .args(["-J", &format!("size={JOURNAL_MIB}")])
        .args(["-O", "^resize_inode"])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"])
        .arg("-d")
        .args([content, image])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(RootError::at("run mkfs.ext4 for", image))?;
    let ended =
        wait(&child, MKFS_TIMEOUT).map_err(RootError::at("wait for mkfs.ext4 of", image))?;
    if !ended {
        // It may have ended just now, which is as good.
        let _ = child.kill();
    }
    let output = child
        .wait_with_output()
        .map_err(RootError::at("wait for mkfs.ext4 of", image))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(RootError::Program {
        program: PROGRAM,
        output: match said.trim() {
            _ if !ended => format!("not done after {} s", MKFS_TIMEOUT.as_secs()),
            "" => output.status.to_string(),
            said => said.chars().take(MAX_MESSAGE).collect(),
        },
    })
}

/// Waits for the end of a process; whether it came in time.
fn wait(child: &Child, max_wait: Duration) -> Result<bool, Errno> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    let max_wait = Timespec::try_from(max_wait).map_err(|_| Errno::INVAL)?;
    rustix::io::retry_on_intr(|| poll(&mut ends, Some(&max_wait))).map(|ready| ready > 0)
}
