//! A file that is being saved.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustic_core::{ErrorKind, ReadSourceOpen, RusticError, RusticResult};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Shared;
use super::root::Root;
use crate::descend;
use crate::error::BackupError;

/// A file to be opened when its turn comes.
pub(crate) struct SourceFile {
    pub(super) root: Arc<Root>,
    /// Where it is below the root.
    pub(super) inside: PathBuf,
    pub(super) size: u64,
    pub(super) shared: Arc<Shared>,
}

impl SourceFile {
    fn path(&self) -> PathBuf {
        self.root.path.join(&self.inside)
    }
}

impl ReadSourceOpen for SourceFile {
    type Reader = Reader;

    fn open(self) -> RusticResult<Reader> {
        match open(&self.root, &self.inside) {
            Ok(file) => {
                self.shared.reporter.file_read();
                Ok(Reader {
                    file,
                    read: 0,
                    of: self,
                })
            }
            Err(error) => {
                let (path, source) = (self.path(), error.into());
                self.shared.gate.fail(BackupError::Source { path, source });
                Err(RusticError::new(
                    ErrorKind::InputOutput,
                    "a source cannot be opened",
                ))
            }
        }
    }
}

/// Only what we own or may do as root is opened without leaving a trace.
fn open(root: &Root, inside: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let open = |flags| descend::open(&root.dir, inside, flags, Mode::empty()).map(File::from);
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM | Errno::ACCESS) => open(flags),
        file => file,
    }
}

/// Reads a file, and notes what fails and whether it has the size it should.
pub(crate) struct Reader {
    file: File,
    read: u64,
    of: SourceFile,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let gate = &self.of.shared.gate;
        if !gate.is_open() {
            return Err(io::Error::other("cancelled"));
        }
        let path = || self.of.path();
        match self.file.read(buffer) {
            Ok(0) if self.read != self.of.size && !buffer.is_empty() => {
                gate.fail(BackupError::Changed { path: path() });
                Err(io::Error::other("changed while read"))
            }
            Ok(length) => {
                self.read += length as u64;
                Ok(length)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let again = io::Error::from(error.kind());
                gate.fail(BackupError::Source {
                    path: path(),
                    source: error,
                });
                Err(again)
            }
        }
    }
}
