//! One daemon per data directory: it holds `DIR/lock`, and the file contains
//! its pid. The kernel releases the lock when the holder dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use strata_cli::{Exit, Failure};

/// Held for as long as the daemon lives.
pub(crate) struct Lock {
    _file: File,
}

fn open(data_dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(data_dir.join("lock"))
}

fn cannot(data_dir: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Exit::Unexpected,
        format!("cannot lock {}: {error}", data_dir.display()),
    )
}

/// Takes the lock, or names its holder.
pub(crate) fn take(data_dir: &Path) -> Result<Lock, Failure> {
    let mut file = open(data_dir).map_err(|error| cannot(data_dir, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            written.map_err(|error| cannot(data_dir, &error))?;
            Ok(Lock { _file: file })
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let holder = pid_in(&mut file).map_or_else(String::new, |pid| format!(", pid {pid}"));
            Err(Failure::new(
                Exit::Refused,
                format!("a daemon already runs on {}{holder}", data_dir.display()),
            )
            .hint("use another --data-dir, or stop that daemon first"))
        }
        Err(errno) => Err(cannot(data_dir, &errno.into())),
    }
}

/// The daemon that runs on a data directory, if one does.
pub(crate) fn holder(data_dir: &Path) -> Option<i32> {
    let mut file = File::open(data_dir.join("lock")).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => pid_in(&mut file),
        _ => None,
    }
}

fn pid_in(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_daemon_gets_the_pid_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(holder(directory.path()), None);
        let lock = take(directory.path()).unwrap();
        assert_eq!(
            holder(directory.path()),
            Some(std::process::id().cast_signed())
        );
        assert!(take(directory.path()).is_err());
        drop(lock);
        assert_eq!(holder(directory.path()), None);
        assert!(take(directory.path()).is_ok());
    }
}
