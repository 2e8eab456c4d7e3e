//! The writer: one file at a time, rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;

use crate::files::{LONGEST_LINE, list, name_of, next_line};
use crate::{Decision, Entry};

/// How often what was written is made to survive a power cut.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// As much of a call or of a reason as is written.
const LONGEST_TEXT: usize = 2048;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A file is followed by another from this size on.
    pub file_bytes: u64,
    /// So many files; then the oldest goes.
    pub files: usize,
}

impl Default for Limits {
    /// One gibibyte.
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            files: 64,
        }
    }
}

/// The log of one process. Cheap to share.
#[derive(Debug)]
pub struct AuditLog {
    directory: PathBuf,
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    size: u64,
    number: u64,
    last_hash: String,
    lost: u64,
    unsynced: bool,
}

impl AuditLog {
    /// Goes on with the log in a directory, or begins one. A last line that a
    /// power cut left half written is cut off.
    pub fn open(directory: &Path, limits: Limits) -> io::Result<Arc<Self>> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let inner = match list(directory)?.pop() {
            Some((first, path)) => resume(&path, first)?,
            None => Inner {
                file: create(directory, 1)?,
                size: 0,
                number: 0,
                last_hash: String::new(),
                lost: 0,
                unsynced: false,
            },
        };
        let log = Arc::new(Self {
            directory: directory.to_owned(),
            limits,
            inner: Mutex::new(inner),
        });
        let weak = Arc::downgrade(&log);
        std::thread::Builder::new()
            .name("audit-sync".into())
            .spawn(move || sync_until_dropped(&weak))?;
        Ok(log)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a line. One that cannot be written is counted, logged, and told
    /// of by the next that can: a full disk must not keep the one out who
    /// would make room.
    pub fn append(&self, decision: Decision, suppressed: u64) {
        let mut inner = self.lock();
        if let Err(error) = self.write(&mut inner, decision, suppressed) {
            inner.lost += 1;
            let lost = inner.lost;
            drop(inner);
            tracing::error!(%error, lost, "audit log cannot be written");
        }
    }

    /// The number of the last line.
    pub fn last_number(&self) -> u64 {
        self.lock().number
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, inner: &mut Inner, mut decision: Decision, suppressed: u64) -> io::Result<()> {
        if inner.size >= self.limits.file_bytes {
            self.rotate(inner)?;
        }
        shorten(&mut decision.call);
        decision.reason.as_mut().map(shorten);
        let entry = Entry {
            number: inner.number.saturating_add(1),
            time: Timestamp::now().to_string(),
            decision,
            suppressed,
            lost: inner.lost,
            previous: inner.last_hash.clone(),
            hash: String::new(),
        };
        let (mut line, hash) = entry.seal()?;
        line.push('\n');
        if let Err(error) = inner.file.write_all(line.as_bytes()) {
            // What a full disk took of it is no line.
            inner.file.set_len(inner.size)?;
            return Err(error);
        }
        inner.size += line.len() as u64;
        inner.number += 1;
        inner.last_hash = hash;
        inner.lost = 0;
        inner.unsynced = true;
        Ok(())
    }

    fn rotate(&self, inner: &mut Inner) -> io::Result<()> {
        inner.file.sync_data()?;
        inner.file = create(&self.directory, inner.number.saturating_add(1))?;
        inner.size = 0;
        let files = list(&self.directory)?;
        let surplus = files.len().saturating_sub(self.limits.files);
        for (_, path) in &files[..surplus] {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn sync(&self) {
        let mut inner = self.lock();
        if !std::mem::take(&mut inner.unsynced) {
            return;
        }
        let file = inner.file.try_clone();
        drop(inner);
        if let Err(error) = file.and_then(|file| file.sync_data()) {
            tracing::error!(%error, "audit log cannot be synced");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.sync();
    }
}

fn sync_until_dropped(log: &Weak<AuditLog>) {
    loop {
        std::thread::sleep(SYNC_INTERVAL);
        match log.upgrade() {
            Some(log) => log.sync(),
            None => return,
        }
    }
}

fn create(directory: &Path, first: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(directory.join(name_of(first)))
}

/// Finds the end of the last file.
fn resume(path: &Path, first: u64) -> io::Result<Inner> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut size, mut number, mut last_hash) = (0, first.saturating_sub(1), None);
    while let Some(line) = next_line(&mut reader)? {
        let Some(entry) = Entry::unseal(&line) else {
            break;
        };
        size += line.len() as u64 + 1;
        (number, last_hash) = (entry.number, Some(entry.hash));
    }
    let mut file = OpenOptions::new().append(true).open(path)?;
    let whole = file.metadata()?.len();
    if size > whole {
        // All of the last line is there but for its end.
        file.write_all(b"\n")?;
    }
    if size < whole {
        if !is_half_a_line(path, size)? {
            return after_damage(path, number);
        }
        let cut = whole - size;
        tracing::warn!(path = %path.display(), cut, "audit log ended in half a line");
        file.set_len(size)?;
    }
    let last_hash = match last_hash {
        Some(hash) => hash,
        // The file was just begun: its chain goes on from the one before.
        None => last_hash_before(path, first)?,
    };
    Ok(Inner {
        file,
        size,
        number,
        last_hash,
        lost: 0,
        unsynced: false,
    })
}

/// Whether what follows `size` bytes can be a line that was being written.
fn is_half_a_line(path: &Path, size: u64) -> io::Result<bool> {
    let mut rest = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(size))?;
    file.take(LONGEST_LINE).read_to_end(&mut rest)?;
    Ok((rest.len() as u64) < LONGEST_LINE && !rest.contains(&b'\n'))
}

/// A line in the middle is not what was written, and what follows it is
/// evidence: nothing is cut off. Another file begins another chain, at a number
/// beyond all that can be in this one, which shows.
fn after_damage(path: &Path, number: u64) -> io::Result<Inner> {
    const BEYOND: u64 = 1 << 32;
    tracing::error!(path = %path.display(), "audit log is damaged; another chain begins");
    let directory = path.parent().unwrap_or(Path::new("."));
    let number = number + BEYOND;
    Ok(Inner {
        file: create(directory, number.saturating_add(1))?,
        size: 0,
        number,
        last_hash: String::new(),
        lost: 0,
        unsynced: false,
    })
}

fn last_hash_before(path: &Path, first: u64) -> io::Result<String> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let files = list(directory)?;
    let before = files.iter().rev().find(|(number, _)| *number < first);
    let Some((_, before)) = before else {
        return Ok(String::new());
    };
    let mut reader = BufReader::new(File::open(before)?);
    let mut hash = String::new();
    while let Some(line) = next_line(&mut reader)? {
        if let Some(entry) = Entry::unseal(&line) {
            hash = entry.hash;
        }
    }
    Ok(hash)
}

fn shorten(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(LONGEST_TEXT) {
        text.truncate(at);
    }
}
