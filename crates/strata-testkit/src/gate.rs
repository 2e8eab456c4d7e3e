//! A gate in a script: it goes on when the test says so, and not before.

use std::fs;
use std::path::{Path, PathBuf};

/// A gate, closed until it is opened.
#[derive(Clone, Debug)]
pub struct Gate {
    file: PathBuf,
}

impl Gate {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self {
            file: folder.join(format!("gate-{name}")),
        }
    }

    /// What a shell script does at the gate.
    pub fn wait(&self) -> String {
        format!(
            "while [ ! -e {} ]; do sleep 0.01; done",
            self.file.display()
        )
    }

    /// Lets everybody through.
    ///
    /// # Panics
    /// When the disk is full.
    pub fn open(&self) {
        fs::write(&self.file, "").expect("a gate can be opened");
    }
}
