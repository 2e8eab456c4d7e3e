//! Files of the repository whose content does not match their name, which is
//! the hash of it: found by reading, and moved out of the way.
//!
//! What is moved goes to `damaged/` in the repository, where no client looks.
//! A snapshot stays there. An index is removed once the packs that it named are
//! indexed again from their own headers; until then it says that this is to do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustic_core::{OpenStatus, RepairIndexOptions, Repository};

use crate::cipher::name_of;
use crate::error::{BackupError, Result};
use crate::session::Session;
use crate::store::{FileKind, StoredFile};

/// Those of the files that do not match their name, or cannot be read.
pub(crate) fn find(
    session: &Session,
    kind: FileKind,
    files: &[&StoredFile],
) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let damaged = Mutex::new(Vec::new());
    let stopped = Mutex::new(None);
    let work = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = session.gate.pass();
            let read = read.and_then(|()| session.store.read(kind, &file.name));
            match read {
                Ok(bytes) if name_of(&bytes) == file.name => {
                    session.reporter.bytes(bytes.len() as u64);
                }
                Ok(_) | Err(BackupError::Storage { .. }) => lock(&damaged).push(file.name.clone()),
                Err(BackupError::Missing { .. }) => {}
                Err(error) => {
                    next.store(files.len(), Ordering::Relaxed);
                    lock(&stopped).get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..session.store.readers().min(files.len()) {
            scope.spawn(work);
        }
    });
    match lock(&stopped).take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut *lock(&damaged))),
    }
}

/// All damaged files of a kind.
pub(crate) fn find_all(session: &Session, kind: FileKind) -> Result<Vec<String>> {
    let files = session.store.list(kind)?;
    find(session, kind, &files.iter().collect::<Vec<_>>())
}

/// Moves the damaged ones of these files aside, and returns which those are:
/// another process may have been at work since they were found.
pub(crate) fn set_aside(
    session: &Session,
    kind: FileKind,
    names: &[String],
) -> Result<Vec<String>> {
    let files = session.store.list(kind)?;
    let files = files.iter().filter(|file| names.contains(&file.name));
    let damaged = find(session, kind, &files.collect::<Vec<_>>())?;
    for name in &damaged {
        session.store.set_aside(kind, name)?;
    }
    Ok(damaged)
}

/// Whether a repair was ended before the packs of damaged indexes were indexed.
pub(crate) fn is_index_incomplete(session: &Session) -> Result<bool> {
    Ok(!session.store.list(FileKind::DamagedIndex)?.is_empty())
}

/// Indexes packs that no index names, from their headers.
pub(crate) fn index_again(session: &Session, opened: &Repository<OpenStatus>) -> Result<()> {
    let options = RepairIndexOptions::default();
    session.told("repairing the index", opened.repair_index(&options, false))?;
    session.gate.settle()?;
    for file in session.store.list(FileKind::DamagedIndex)? {
        session.store.remove(FileKind::DamagedIndex, &file.name)?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
