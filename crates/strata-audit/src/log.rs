//! The writer: one file at a time, rotated by size.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;

use crate::files::{list, name_of};
use crate::head::{self, Head};
use crate::resume::{Current, resume};
use crate::{Anchor, Decision, Entry, Outcome};

/// How often what was written is made to survive a power cut.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The call of entries that the log writes about itself.
const TAMPERED: &str = "audit log tampered with";
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
    current: Current,
    head: Option<(File, Head)>,
    lost: u64,
    unsynced: bool,
    /// Something was done to the file, and has been logged.
    reported: bool,
}

impl AuditLog {
    /// Goes on with the log in a directory, or begins one. A last line that a
    /// power cut left half written is cut off.
    pub fn open(directory: &Path, limits: Limits) -> io::Result<Arc<Self>> {
        Self::open_at(directory, limits, None)
    }

    /// The same for a log whose end is kept in a file of its own. What is
    /// missing up to there was cut off: that is logged, and the log goes on with
    /// an entry that says so.
    pub fn open_with_head(directory: &Path, limits: Limits, head: &Path) -> io::Result<Arc<Self>> {
        Self::open_at(directory, limits, Some(head))
    }

    fn open_at(directory: &Path, limits: Limits, head: Option<&Path>) -> io::Result<Arc<Self>> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let current = match list(directory)?.pop() {
            Some((first, path)) => resume(&path, first)?,
            None => Current::after(directory, Anchor::default())?,
        };
        let log = Arc::new(Self {
            directory: directory.to_owned(),
            limits,
            inner: Mutex::new(Inner {
                current,
                head: None,
                lost: 0,
                unsynced: false,
                reported: false,
            }),
        });
        // Without a head the log is as good as it was: a full disk must not keep
        // a daemon from starting.
        if let Some(path) = head
            && let Err(error) = log.take_head(path)
        {
            tracing::error!(%error, path = %path.display(), "head of the audit log cannot be kept");
        }
        let weak = Arc::downgrade(&log);
        std::thread::Builder::new()
            .name("audit-sync".into())
            .spawn(move || sync_until_dropped(&weak))?;
        Ok(log)
    }

    /// Holds the log against the head that was kept, and keeps one from now on.
    fn take_head(&self, path: &Path) -> io::Result<()> {
        let kept = Head::read(path).unwrap_or_else(|error| {
            tracing::error!(%error, path = %path.display(), "head of the audit log cannot be read");
            None
        });
        if let Some(anchor) = kept.as_ref().and_then(Head::expected) {
            self.expect(anchor)?;
        }
        let mut inner = self.lock();
        let file = head::open(path)?;
        let oldest = list(&self.directory)?;
        let oldest = oldest.first().map_or(1, |(first, _)| *first);
        // What went missing meanwhile is still expected, so that it shows.
        let missing = kept.filter(|kept| {
            kept.first < oldest && kept.written.number > 0 && kept.written == inner.current.last
        });
        if missing.is_some() {
            let path = self.directory.display();
            tracing::error!(%path, oldest, "audit log was tampered with: its oldest files are missing");
        }
        let first = missing.map_or(oldest, |kept| kept.first);
        let head = Head::new(first, inner.current.last.clone());
        head.write(&file)?;
        inner.head = Some((file, head));
        Ok(())
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The last line, to be noted elsewhere.
    pub fn anchor(&self) -> Anchor {
        self.lock().current.last.clone()
    }

    /// Holds the log against a line that was noted elsewhere; whether it is
    /// there. Where it is not, that is logged, and an entry says so.
    pub fn expect(&self, anchor: &Anchor) -> io::Result<bool> {
        let mut inner = self.lock();
        if anchor.is_in(&self.directory)? {
            return Ok(true);
        }
        let found = inner.current.last.number;
        let last = match found < anchor.number {
            true => anchor.clone(),
            false => inner.current.last.clone(),
        };
        inner.current = Current::after(&self.directory, last)?;
        let why = match found < anchor.number {
            true => format!(
                "the log ended with entry {found}, and entry {} had been written",
                anchor.number
            ),
            false => format!("entry {} is not the one that was written", anchor.number),
        };
        self.report(&mut inner, &why)?;
        Ok(false)
    }

    /// Writes a line. One that cannot be written is counted, logged, and
    /// reported by the next that can: a full disk must not keep out the admin
    /// who would make room. Returns how many bytes were written.
    pub fn append(&self, decision: Decision, suppressed: u64) -> u64 {
        let mut inner = self.lock();
        match self.write(&mut inner, decision, suppressed) {
            Ok(bytes) => bytes,
            Err(error) => {
                inner.lost += 1;
                let lost = inner.lost;
                drop(inner);
                tracing::error!(%error, lost, "audit log cannot be written");
                0
            }
        }
    }

    /// The number of the last line.
    pub fn last_number(&self) -> u64 {
        self.lock().current.last.number
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, inner: &mut Inner, decision: Decision, suppressed: u64) -> io::Result<u64> {
        if let Some(why) = self.tampered(inner) {
            inner.current = Current::after(&self.directory, inner.current.last.clone())?;
            self.report(inner, &why)?;
        }
        if inner.current.size >= self.limits.file_bytes {
            self.rotate(inner)?;
        }
        put(inner, decision, suppressed)
    }

    /// What was done to the file behind the back of this process, if anything.
    /// A line that was changed in place is not seen here: the chain shows it.
    fn tampered(&self, inner: &Inner) -> Option<String> {
        let Current {
            file,
            first,
            size,
            last,
        } = &inner.current;
        let name = name_of(*first);
        let (ours, there) = (file.metadata(), fs::metadata(self.directory.join(&name)));
        let same = |there: &fs::Metadata, ours: &fs::Metadata| {
            (there.dev(), there.ino()) == (ours.dev(), ours.ino())
        };
        let number = last.number;
        match (ours, there) {
            (Ok(ours), Ok(there)) if same(&there, &ours) => (ours.len() != *size).then(|| {
                let found = ours.len();
                format!("{name} has {found} bytes, and had {size} at entry {number}")
            }),
            (Ok(_), Ok(_)) => Some(format!("{name} was replaced after entry {number}")),
            (Ok(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                Some(format!("{name} was removed after entry {number}"))
            }
            // What cannot be read cannot be written either.
            _ => None,
        }
    }

    /// Logs what was done to the log, and adds an entry of it.
    fn report(&self, inner: &mut Inner, why: &str) -> io::Result<()> {
        let path = self.directory.display();
        if !std::mem::take(&mut inner.reported) {
            tracing::error!(%path, why, "audit log was tampered with");
        }
        let decision = Decision {
            principal: None,
            role: None,
            credential: None,
            projects: Vec::new(),
            source: None,
            call: TAMPERED.into(),
            object: Some("audit".into()),
            project: None,
            outcome: Outcome::Denied,
            reason: Some(why.to_owned()),
            session: None,
        };
        put(inner, decision, 0).map(drop)
    }

    fn rotate(&self, inner: &mut Inner) -> io::Result<()> {
        inner.current.file.sync_data()?;
        inner.current = Current::after(&self.directory, inner.current.last.clone())?;
        let files = list(&self.directory)?;
        let surplus = files.len().saturating_sub(self.limits.files);
        for (_, path) in &files[..surplus] {
            fs::remove_file(path)?;
        }
        if let (Some((_, head)), Some((first, _)), true) =
            (&mut inner.head, files.get(surplus), surplus > 0)
        {
            head.first = *first;
        }
        Ok(())
    }

    /// Has what was written survive a power cut, and checks the file.
    fn sync(&self) {
        let mut inner = self.lock();
        match self.tampered(&inner) {
            None => inner.reported = false,
            Some(why) if !std::mem::replace(&mut inner.reported, true) => {
                let path = self.directory.display();
                tracing::error!(%path, why, "audit log was tampered with");
            }
            Some(_) => {}
        }
        if !std::mem::take(&mut inner.unsynced) {
            return;
        }
        let (file, last) = (inner.current.file.try_clone(), inner.current.last.clone());
        drop(inner);
        let synced = file.and_then(|file| file.sync_data());
        let synced = synced.and_then(|()| match &mut self.lock().head {
            None => Ok(()),
            Some((file, head)) => {
                head.set_synced(last);
                head.write(file)
            }
        });
        if let Err(error) = synced {
            tracing::error!(%error, "audit log cannot be synced");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.sync();
    }
}

/// Writes a line at the end of the current file, and where the end is now.
/// Returns the length of the line.
fn put(inner: &mut Inner, mut decision: Decision, suppressed: u64) -> io::Result<u64> {
    shorten(&mut decision.call);
    decision.reason.as_mut().map(shorten);
    let current = &mut inner.current;
    let entry = Entry {
        number: current.last.number.saturating_add(1),
        time: Timestamp::now().to_string(),
        decision,
        suppressed,
        lost: inner.lost,
        previous: current.last.hash.clone(),
        hash: String::new(),
    };
    let (mut line, hash) = entry.seal()?;
    line.push('\n');
    if let Err(error) = current.file.write_all(line.as_bytes()) {
        // What a full disk took of it is no line.
        current.file.set_len(current.size)?;
        return Err(error);
    }
    let bytes = line.len() as u64;
    current.size += bytes;
    current.last = Anchor {
        number: entry.number,
        hash,
    };
    inner.lost = 0;
    inner.unsynced = true;
    if let Some((file, head)) = &mut inner.head {
        head.written = inner.current.last.clone();
        if let Err(error) = head.write(file) {
            // The line is there; it is its end that is not known elsewhere.
            tracing::error!(%error, "head of the audit log cannot be written");
        }
    }
    Ok(bytes)
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

fn shorten(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(LONGEST_TEXT) {
        text.truncate(at);
    }
}
