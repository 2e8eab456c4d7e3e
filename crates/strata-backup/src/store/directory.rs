//! A repository in a directory, laid out as restic's `local` backend does.
//!
//! A file is written beside its place, synced and renamed. The names of new
//! packs reach the disk before anything that names packs does: directories with
//! new names are noted, and synced before the next file that is no pack. So a
//! loss of power costs what was under way, never what is named.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{FileKind, Store, StoredFile, is_name};
use crate::error::{BackupError, Result};
use crate::rate_limiter::RateLimiter;

/// As much is written between two looks at the pace.
const PIECE: usize = 256 << 10;
/// A half-written lock this old has no writer any more.
const STALE_LOCK_AGE: Duration = Duration::from_secs(24 * 3600);
/// What a file is called until it is whole.
const HALF: &str = "-tmp-";

pub(crate) struct DirectoryStore {
    root: PathBuf,
    unsynced: Mutex<BTreeSet<PathBuf>>,
    writes: AtomicU64,
}

impl DirectoryStore {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            unsynced: Mutex::new(BTreeSet::new()),
            writes: AtomicU64::new(0),
        }
    }

    fn path(&self, place: FileKind, name: &str) -> PathBuf {
        self.root.join(place.path(name))
    }

    /// Makes what was renamed last until now.
    fn sync_names(&self) -> io::Result<()> {
        let noted = std::mem::take(&mut *lock(&self.unsynced));
        for dir in noted {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    fn put(&self, place: FileKind, name: &str, pieces: &[Bytes], pace: &RateLimiter) -> Result<()> {
        let path = self.path(place, name);
        let failed = |error| BackupError::storage("writing", place.path(name), error);
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let half = half_of(&path, number);
        let file = create(&half).map_err(failed)?;
        let written = write_paced(&file, pieces, pace)
            .and_then(|()| file.sync_data().map_err(failed))
            .and_then(|()| fs::rename(&half, &path).map_err(failed));
        if let Err(error) = written {
            let _ = fs::remove_file(&half);
            return Err(match error {
                BackupError::Storage { source, .. } => failed(source),
                other => other,
            });
        }
        if let Some(dir) = path.parent() {
            lock(&self.unsynced).insert(dir.to_owned());
        }
        if place == FileKind::Data {
            return Ok(());
        }
        self.sync_names().map_err(failed)
    }
}

impl Store for DirectoryStore {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn readers(&self) -> usize {
        std::thread::available_parallelism().map_or(2, usize::from)
    }

    fn is_far(&self) -> bool {
        false
    }

    fn prepare(&self) -> Result<()> {
        let make = |path: &Path| {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|error| BackupError::storage("making", path.display().to_string(), error))
        };
        make(&self.root)?;
        for place in FileKind::DIRS {
            make(&self.root.join(place.dir()))?;
        }
        let data = self.root.join(FileKind::Data.dir());
        (0..=0xff_u8).try_for_each(|first| make(&data.join(format!("{first:02x}"))))?;
        for dir in [&self.root, &data] {
            File::open(dir)
                .and_then(|dir| dir.sync_all())
                .map_err(|error| BackupError::storage("syncing", "folders", error))?;
        }
        Ok(())
    }

    fn roots(&self, enough: usize) -> Result<Vec<String>> {
        let failed = |error| BackupError::storage("listing", self.location(), error);
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        // A file system of its own has this directory.
        let names = entries
            .filter(|entry| !matches!(entry, Ok(entry) if entry.file_name() == "lost+found"));
        names
            .take(enough)
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into()))
            .collect()
    }

    fn list(&self, place: FileKind) -> Result<Vec<StoredFile>> {
        let failed = |error| BackupError::storage("listing", place.dir(), error);
        let dir = self.root.join(place.dir());
        let mut found = Vec::new();
        match place {
            FileKind::Config => match fs::metadata(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                meta => {
                    let meta = meta.map_err(failed)?;
                    found.push(StoredFile {
                        name: String::new(),
                        size: meta.len(),
                        stamp: stamp(&meta),
                    });
                }
            },
            FileKind::Data => {
                for below in names(&dir).map_err(failed)? {
                    list_into(&dir.join(below), &mut found).map_err(failed)?;
                }
            }
            _ => list_into(&dir, &mut found).map_err(failed)?,
        }
        Ok(found)
    }

    fn read(&self, place: FileKind, name: &str) -> Result<Bytes> {
        fs::read(self.path(place, name))
            .map(Bytes::from)
            .map_err(|error| BackupError::storage("reading", place.path(name), error))
    }

    fn read_range(&self, place: FileKind, name: &str, offset: u64, length: u64) -> Result<Bytes> {
        let failed = |error| BackupError::storage("reading", place.path(name), error);
        let file = File::open(self.path(place, name)).map_err(failed)?;
        // A forged index must not make us request unbounded memory.
        let there = file.metadata().map_err(failed)?.len();
        if offset.checked_add(length).is_none_or(|end| end > there) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes.into())
    }

    fn write(
        &self,
        place: FileKind,
        name: &str,
        pieces: &[Bytes],
        pace: &RateLimiter,
    ) -> Result<()> {
        match self.put(place, name, pieces, pace) {
            // The creator of the repository may have left out directories for
            // packs.
            Err(BackupError::Missing { .. }) => {
                self.prepare()?;
                self.put(place, name, pieces, pace)
            }
            result => result,
        }
    }

    fn remove(&self, place: FileKind, name: &str) -> Result<()> {
        match fs::remove_file(self.path(place, name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BackupError::storage("removing", place.path(name), error))
            }
            _ => Ok(()),
        }
    }

    fn set_aside(&self, place: FileKind, name: &str) -> Result<()> {
        let failed = |error| BackupError::storage("moving", place.path(name), error);
        let (from, to) = (self.path(place, name), self.path(place.aside(), name));
        let mut dirs = fs::DirBuilder::new();
        let dirs = dirs.recursive(true).mode(0o700);
        let made = to.parent().map_or(Ok(()), |dir| dirs.create(dir));
        made.map_err(failed)?;
        fs::rename(&from, &to).map_err(failed)?;
        // `to` is in two directories that may be new.
        let above = to.ancestors().skip(1).take(3).chain(from.parent());
        for dir in above {
            File::open(dir)
                .and_then(|dir| dir.sync_all())
                .map_err(failed)?;
        }
        Ok(())
    }

    fn sweep(&self) -> Result<()> {
        for place in FileKind::DIRS {
            let dir = self.root.join(place.dir());
            let failed = |error| BackupError::storage("sweeping", place.dir(), error);
            // Others may be about to write a lock of their own.
            let age = if place == FileKind::Locks {
                STALE_LOCK_AGE
            } else {
                Duration::ZERO
            };
            sweep_dir(&dir, age).map_err(failed)?;
            if place == FileKind::Data {
                for below in names(&dir).map_err(failed)? {
                    sweep_dir(&dir.join(below), age).map_err(failed)?;
                }
            }
        }
        Ok(())
    }
}

fn half_of(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{HALF}{}-{number}", std::process::id()));
    name.into()
}

fn create(path: &Path) -> io::Result<File> {
    // As restic does: no file of the repository is written twice.
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(0o400);
    match how.open(path) {
        // A process with our number died here once.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            how.open(path)
        }
        file => file,
    }
}

fn write_paced(mut file: &File, pieces: &[Bytes], pace: &RateLimiter) -> Result<()> {
    let failed = |error| BackupError::storage("writing", "", error);
    if !pace.is_limited() {
        let mut rest: Vec<io::IoSlice<'_>> = pieces.iter().map(|p| io::IoSlice::new(p)).collect();
        let mut rest = rest.as_mut_slice();
        io::IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match file.write_vectored(rest) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Ok(n) => io::IoSlice::advance_slices(&mut rest, n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        return Ok(());
    }
    for piece in pieces.iter().flat_map(|piece| piece.chunks(PIECE)) {
        pace.take(piece.len())?;
        file.write_all(piece).map_err(failed)?;
    }
    Ok(())
}

/// When the file last changed in any way: no process can set that back.
fn stamp(meta: &fs::Metadata) -> u64 {
    let nanoseconds = meta.ctime().wrapping_mul(1_000_000_000);
    nanoseconds.wrapping_add(meta.ctime_nsec()).unsigned_abs()
}

fn list_into(dir: &Path, found: &mut Vec<StoredFile>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_name(name)) else {
            continue;
        };
        match entry.metadata() {
            // Another removed it between our two looks.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            meta => {
                let meta = meta?;
                found.push(StoredFile {
                    name: name.to_owned(),
                    size: meta.len(),
                    stamp: stamp(&meta),
                });
            }
        }
    }
    Ok(())
}

fn names(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    names.push(entry.file_name());
                }
            }
        }
    }
    Ok(names)
}

fn sweep_dir(dir: &Path, oldest: Duration) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let is_half = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.contains(HALF));
        if !is_half {
            continue;
        }
        let written = entry.metadata().and_then(|meta| meta.modified());
        let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_ok_and(|age| age >= oldest) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
