//! The program of this very daemon, as a file that stays. The one it was
//! started from may be replaced at any time by a newer version, and a file
//! that is gone cannot be mounted anywhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, linkat};

const OWN: &str = "/proc/self/exe";

/// The program of this daemon, kept when it is first needed.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    kept: Mutex<bool>,
}

impl Program {
    /// To be kept at `path`. What is there may be that of an earlier daemon.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            kept: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> io::Result<&Path> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !*kept {
            self.keep()?;
            *kept = true;
        }
        Ok(&self.path)
    }

    /// A link costs nothing; a copy is for another file system, or for a
    /// program that is gone already.
    fn keep(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let _ = fs::remove_file(&new);
        if linkat(CWD, OWN, CWD, &new, AtFlags::SYMLINK_FOLLOW).is_err() {
            fs::copy(OWN, &new)?;
        }
        // Both may be links of one file, which a rename leaves as they are.
        let _ = fs::remove_file(&self.path);
        fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_stored_once_and_replaces_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, "an earlier one").unwrap();
        for _ in 0..2 {
            let program = Program::new(path.clone());
            assert_eq!(program.path().unwrap(), path);
            assert_eq!(program.path().unwrap(), path);
            let kept = fs::metadata(&path).unwrap().len();
            assert_eq!(kept, fs::metadata(OWN).unwrap().len());
        }
        assert!(!path.with_extension("new").exists());
    }
}
