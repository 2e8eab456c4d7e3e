//! `mkfs.btrfs`, the only program of the host that the pool needs, and only
//! when it is made.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use strata_types::storage::Profile;

use crate::{Result, StorageError};

const PROGRAM: &str = "mkfs.btrfs";
/// Daemons are often started with a path that lacks these.
const DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];
/// It writes little, but may discard whole devices first.
const MKFS_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const MAX_MESSAGE: usize = 500;

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(DIRS.iter().map(PathBuf::from))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(PROGRAM))
        .find(|program| program.is_file())
}

/// Makes one file system of these devices, whatever is on them.
///
/// Where data is kept once, metadata is still kept twice, on one device: that
/// mends single bad sectors, and lets the pool shrink to one device.
pub(crate) fn format(devices: &[PathBuf], profile: Profile, id: &str) -> Result<()> {
    let program = find().ok_or_else(|| StorageError::Format {
        said: format!("{PROGRAM} is not there"),
    })?;
    let (data, metadata) = match profile {
        Profile::Single => ("single", "dup"),
        Profile::Mirrored => ("raid1", "raid1"),
    };
    let mut command = std::process::Command::new(&program);
    command
        .args(["--quiet", "--force", "--nodiscard", "--uuid", id])
        .args(["--data", data, "--metadata", metadata, "--"])
        .args(devices)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(at(&program))?;
    let until = Instant::now() + MKFS_TIMEOUT;
    // It writes less than a pipe holds, so no reader is needed meanwhile.
    while child.try_wait().map_err(at(&program))?.is_none() {
        if Instant::now() >= until {
            child.kill().map_err(at(&program))?;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let output = child.wait_with_output().map_err(at(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(MAX_MESSAGE).collect();
    Err(StorageError::Format {
        said: format!("{}: {said}", output.status),
    })
}

fn at(program: &Path) -> impl FnOnce(std::io::Error) -> StorageError {
    StorageError::at("run", program)
}
