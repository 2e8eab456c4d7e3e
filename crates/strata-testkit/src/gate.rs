//! A gate in a script: it goes on when the test opens it, and not before.
//!
//! It is a named pipe. To open one for reading blocks until another has it open
//! for writing, so hundreds of scripts wait at a gate without a cycle of work.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{FileType, Mode};

/// A gate, closed until it is opened.
#[derive(Clone, Debug)]
pub struct Gate {
    pipe: PathBuf,
    writer: Arc<Mutex<Option<File>>>,
}

impl Gate {
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        let pipe = dir.join(format!("gate-{name}"));
        let mode = Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0)
            .expect("a named pipe can be made");
        Self {
            pipe,
            writer: Arc::default(),
        }
    }

    /// What a shell script does at the gate. A signal that the script traps
    /// interrupts the open; then it waits on.
    pub fn wait(&self) -> String {
        format!("until true <{}; do :; done", self.pipe.display())
    }

    /// Lets all through, also those that come later, until it is closed.
    ///
    /// # Panics
    /// When the pipe is gone.
    pub fn open(&self) {
        // For both, so that this does not wait for a reader.
        let both = File::options().read(true).write(true).open(&self.pipe);
        self.set(Some(both.expect("a gate can be opened")));
    }

    /// Holds back all that come from now on.
    pub fn close(&self) {
        self.set(None);
    }

    fn set(&self, writer: Option<File>) {
        *self.writer.lock().expect("no panic while it is locked") = writer;
    }
}
