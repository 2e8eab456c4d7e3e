//! The disk of a simulated host, as far as an agent writes to it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_node::simulation::StateFiles;

/// Files in memory.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    full: AtomicBool,
}

impl Disk {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing more can be written.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }
}

impl StateFiles for Disk {
    fn names(&self) -> Vec<String> {
        self.files().keys().cloned().collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.files().get(name).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.files().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.files().remove(name) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
