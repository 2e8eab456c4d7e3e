//! The file: one redb database, and all of it in one snapshot when it opens.
//!
//! The engine refuses everything after the first error of the disk, so the file
//! is closed then and opened again before the next write. What it holds by then
//! is the truth, whatever was requested before.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, WriteTransaction};

use super::OpenError;
use super::mark::RevisionMark;
use super::migrations::{ENTRIES, LEASES, META, Migration, NotMigrated, migrate};
use crate::state::{Delta, Held};
use crate::{Change, LeaseId, Revision};

const REVISION: &str = "revision";
const LAST_LEASE: &str = "last lease";

/// The engine's own cache. Reads never come here, so it only has to hold what
/// writing needs: the upper part of the tree and what was just written.
const CACHE: usize = 16 << 20;

/// Before each value: created, changed, lease.
const HEADER: usize = 24;

/// All that a file holds.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) entries: BTreeMap<String, Held>,
    pub(super) revision: Revision,
    pub(super) leases: BTreeMap<LeaseId, Duration>,
    pub(super) last_lease: LeaseId,
}

#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    migrations: &'static [Migration],
    database: Option<Database>,
    mark: RevisionMark,
    // Held for as long as this is, also while the file is closed.
    _lock: File,
}

impl Disk {
    /// Opens the store in a directory, or makes one.
    pub(super) fn open(
        dir: &Path,
        migrations: &'static [Migration],
    ) -> Result<(Self, Snapshot), OpenError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(io_error(dir))?;
        let lock = lock(dir)?;
        set_unfinished_aside(dir)?;
        // Of a rewrite that was cut short.
        remove_if_there(&dir.join(NEXT))?;
        let mut disk = Self {
            dir: dir.to_owned(),
            migrations,
            database: None,
            mark: RevisionMark::open(dir).map_err(io_error(dir))?,
            _lock: lock,
        };
        let snapshot = disk.reopen()?;
        disk.mark.note(snapshot.revision);
        // A new file is there after a loss of power, too.
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(io_error(dir))?;
        Ok((disk, snapshot))
    }

    /// Whether an error closed the file.
    pub(super) fn is_closed(&self) -> bool {
        self.database.is_none()
    }

    /// Opens the file, and reads all of it.
    pub(super) fn reopen(&mut self) -> Result<Snapshot, OpenError> {
        self.database = None;
        let path = self.dir.join("store.redb");
        let file = private_file(&path)?;
        let engine_error = |error: redb::Error| OpenError::Engine {
            path: path.clone(),
            source: error.into(),
        };
        let database = Database::builder()
            .set_cache_size(CACHE)
            .set_repair_callback(|repair| {
                tracing::info!(
                    progress = repair.progress(),
                    "store was not closed: checking it"
                );
            })
            .create_file(file);
        let database = database.map_err(|error| engine_error(error.into()))?;
        migrate(&database, self.migrations).map_err(|error| match error {
            NotMigrated::Newer { found, known } => OpenError::Newer {
                dir: self.dir.clone(),
                found,
                known,
            },
            NotMigrated::Engine(error) => engine_error(error),
        })?;
        let snapshot = load(&database).map_err(|error| match error {
            NotLoaded::Engine(error) => engine_error(error),
            NotLoaded::Damaged(what) => OpenError::Damaged {
                dir: self.dir.clone(),
                what,
            },
        })?;
        match self.mark.read() {
            Some(noted) if noted > snapshot.revision => Err(OpenError::RolledBack {
                dir: self.dir.clone(),
                found: snapshot.revision,
                noted,
            }),
            _ => {
                self.database = Some(database);
                Ok(snapshot)
            }
        }
    }

    /// Reads every page of the file. Whether all of them are as they were
    /// written; what could be repaired is repaired.
    pub(super) fn check(&mut self) -> Result<bool, OpenError> {
        let Some(database) = &mut self.database else {
            return Ok(false);
        };
        let checked = database.check_integrity();
        checked.map_err(|error| OpenError::Engine {
            path: self.dir.join("store.redb"),
            source: Box::new(error.into()),
        })
    }

    /// Replaces the file by a new one with what is in it now. The engine never
    /// writes in place, so the old one still holds values that were
    /// overwritten, in pages that are free; it is overwritten with zeros.
    /// Killed at any point, the next start finds one of the two files.
    pub(super) fn rewrite(&mut self) -> Result<(), OpenError> {
        let path = self.dir.join("store.redb");
        let next = self.dir.join(NEXT);
        let engine_error = |error: redb::Error| OpenError::Engine {
            path: next.clone(),
            source: Box::new(error),
        };
        let Some(database) = &self.database else {
            return Err(engine_error(redb::Error::DatabaseClosed));
        };
        remove_if_there(&next)?;
        let file = private_file(&next)?;
        let copied = Database::builder()
            .set_cache_size(CACHE)
            .create_file(file)
            .map_err(redb::Error::from)
            .and_then(|copy| copy_tables(database, &copy));
        copied.map_err(engine_error)?;
        let old = private_file(&path)?;
        // Closed before it is replaced: closing writes.
        self.database = None;
        std::fs::rename(&next, &path).map_err(io_error(&path))?;
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(io_error(&self.dir))?;
        overwrite(&old).map_err(io_error(&path))?;
        self.reopen().map(drop)
    }

    /// Writes all of it or nothing, and comes back when it is on disk. An
    /// error closes the file.
    pub(super) fn write(&mut self, delta: &Delta) -> Result<(), redb::Error> {
        let Some(database) = &self.database else {
            return Err(redb::Error::DatabaseClosed);
        };
        let written = database
            .begin_write()
            .map_err(redb::Error::from)
            .and_then(|transaction| {
                put(&transaction, delta)?;
                Ok(transaction.commit()?)
            });
        match &written {
            Err(_) => self.database = None,
            Ok(()) => {
                if let Some(last) = delta.changes.last() {
                    self.mark.note(last.revision);
                }
            }
        }
        written
    }
}

/// A file that is to replace the store, while it is written.
const NEXT: &str = "store.redb.next";

/// All of one file into another that is empty.
fn copy_tables(from: &Database, to: &Database) -> Result<(), redb::Error> {
    let read = from.begin_read()?;
    let write = to.begin_write()?;
    {
        let mut meta = write.open_table(META)?;
        for row in read.open_table(META)?.iter()? {
            let (name, number) = row?;
            meta.insert(name.value(), number.value())?;
        }
        let mut leases = write.open_table(LEASES)?;
        for row in read.open_table(LEASES)?.iter()? {
            let (lease, ttl) = row?;
            leases.insert(lease.value(), ttl.value())?;
        }
        let mut entries = write.open_table(ENTRIES)?;
        for row in read.open_table(ENTRIES)?.iter()? {
            let (key, value) = row?;
            entries.insert(key.value(), value.value())?;
        }
    }
    Ok(write.commit()?)
}

/// Writes zeros over all of a file.
fn overwrite(file: &File) -> std::io::Result<()> {
    use std::io::{Read as _, Seek as _};
    let length = file.metadata()?.len();
    let mut file = file;
    file.rewind()?;
    std::io::copy(&mut std::io::repeat(0).take(length), &mut file)?;
    file.sync_all()
}

fn remove_if_there(path: &Path) -> Result<(), OpenError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

fn put(transaction: &WriteTransaction, delta: &Delta) -> Result<(), redb::Error> {
    let mut entries = transaction.open_table(ENTRIES)?;
    for change in delta.changes.iter().flat_map(|it| &it.changes) {
        match change {
            Change::Put(entry) => {
                let length = HEADER + entry.value.len();
                let mut place = entries.insert_reserve(entry.key.as_str(), length)?;
                let (header, value) = place.as_mut().split_at_mut(HEADER);
                let lease = entry.lease.map_or(0, |lease| lease.0);
                header[..8].copy_from_slice(&entry.created.to_be_bytes());
                header[8..16].copy_from_slice(&entry.changed.to_be_bytes());
                header[16..].copy_from_slice(&lease.to_be_bytes());
                value.copy_from_slice(&entry.value);
            }
            Change::Deleted { key } => {
                entries.remove(key.as_str())?;
            }
        }
    }
    let mut meta = transaction.open_table(META)?;
    if let Some(last) = delta.changes.last() {
        meta.insert(REVISION, last.revision)?;
    }
    if delta.granted.is_empty() && delta.ended.is_empty() {
        return Ok(());
    }
    let mut leases = transaction.open_table(LEASES)?;
    for (lease, ttl) in &delta.granted {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        leases.insert(lease.0, millis)?;
        meta.insert(LAST_LEASE, lease.0.unsigned_abs())?;
    }
    for lease in &delta.ended {
        leases.remove(lease.0)?;
    }
    Ok(())
}

enum NotLoaded {
    Engine(redb::Error),
    Damaged(String),
}

impl<E: Into<redb::Error>> From<E> for NotLoaded {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

fn load(database: &Database) -> Result<Snapshot, NotLoaded> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let number = |name| meta.get(name).map(|it| it.map_or(0, |it| it.value()));
    let last_lease = number(LAST_LEASE)?;
    let mut snapshot = Snapshot {
        revision: number(REVISION)?,
        last_lease: LeaseId(last_lease.cast_signed()),
        ..Snapshot::default()
    };
    for lease in transaction.open_table(LEASES)?.iter()? {
        let (lease, ttl) = lease?;
        let ttl = Duration::from_millis(ttl.value());
        snapshot.leases.insert(LeaseId(lease.value()), ttl);
    }
    for entry in transaction.open_table(ENTRIES)?.iter()? {
        let (key, bytes) = entry?;
        let held = parse(bytes.value())
            .ok_or_else(|| NotLoaded::Damaged(format!("the entry {}", key.value())))?;
        snapshot.entries.insert(key.value().to_owned(), held);
    }
    Ok(snapshot)
}

fn parse(bytes: &[u8]) -> Option<Held> {
    let (created, rest) = bytes.split_first_chunk()?;
    let (changed, rest) = rest.split_first_chunk()?;
    let (lease, value) = rest.split_first_chunk()?;
    let lease = i64::from_be_bytes(*lease);
    Some(Held {
        value: Bytes::copy_from_slice(value),
        created: u64::from_be_bytes(*created),
        changed: u64::from_be_bytes(*changed),
        lease: (lease != 0).then_some(LeaseId(lease)),
    })
}

/// Takes the directory for us. The engine locks its file as well, but not while
/// an error has it closed.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("store.lock");
    let file = private_file(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            dir: dir.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path, source }),
    }
}

/// Moves a file out of the way whose creation a kill or a power cut has ended.
/// The engine writes its magic number last, once the rest of a new file is on
/// disk, and everything but the header is zero until the first commit. So such
/// a file holds nothing that was ever acknowledged, and left in place it would
/// be refused forever. A file that has anything behind its header is never
/// touched.
fn set_unfinished_aside(dir: &Path) -> Result<(), OpenError> {
    const MAGIC_NUMBER_LENGTH: usize = 9;
    const HEADER_PAGE: usize = 4096;
    /// A file that was never committed to is smaller.
    const MAX_UNCOMMITTED_BYTES: u64 = 64 << 20;
    let path = dir.join("store.redb");
    let is_candidate = match std::fs::metadata(&path) {
        Ok(found) => (HEADER_PAGE as u64..=MAX_UNCOMMITTED_BYTES).contains(&found.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(io_error(&path)(error)),
    };
    if !is_candidate {
        return Ok(());
    }
    let bytes = std::fs::read(&path).map_err(io_error(&path))?;
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let (header, rest) = bytes.split_at(HEADER_PAGE);
    if is_zero(&header[..MAGIC_NUMBER_LENGTH]) && is_zero(rest) {
        let aside = dir.join("store.redb.unfinished");
        tracing::warn!(path = %path.display(), aside = %aside.display(),
            "store file was never completely created: set aside, creating a new one");
        std::fs::rename(&path, &aside).map_err(io_error(&path))?;
    }
    Ok(())
}

fn private_file(path: &Path) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path).map_err(io_error(path))
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    |source| OpenError::Io { path, source }
}
