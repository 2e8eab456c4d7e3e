//! Reading the log: which entries, a page of them, and those that follow.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::Entry;
use crate::files::{LONGEST_LINE, list, next_line};

/// Which entries are meant.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only with a greater number.
    pub after: u64,
    /// Only of this caller.
    pub principal: Option<String>,
    /// Only with this in the call.
    pub call: Option<String>,
    /// Only about this object, or what is in it: `instance/web`, `cell`.
    pub object: Option<String>,
    /// Only about objects of this project.
    pub project: Option<String>,
    /// Only rejected calls.
    pub refused: bool,
    /// Only the starts and ends of sessions.
    pub sessions: bool,
}

impl Filter {
    /// Whether this entry is meant.
    pub fn accept(&self, entry: &Entry) -> bool {
        let decision = &entry.decision;
        let principal = self.principal.as_ref();
        let call = self.call.as_ref();
        entry.number > self.after
            && principal.is_none_or(|name| decision.principal.as_ref() == Some(name))
            && call.is_none_or(|text| decision.call.contains(text))
            && self
                .object
                .as_ref()
                .is_none_or(|object| decision.is_about(object))
            && (self.project.is_none() || decision.project_of_object() == self.project.as_deref())
            && (!self.refused || decision.outcome.is_refusal())
            && (!self.sessions || decision.session.is_some())
    }
}

/// Some of the entries that are meant, in order.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// How many are meant.
    pub total: usize,
    /// The number of the last line there is.
    pub last: u64,
}

impl Page {
    /// The `limit` after the first `offset`.
    pub fn read(
        directory: &Path,
        filter: &Filter,
        offset: usize,
        limit: usize,
    ) -> io::Result<Self> {
        let mut page = Self::default();
        walk(directory, filter, |entry, accepted| {
            page.last = entry.number;
            if accepted {
                if page.total >= offset && page.entries.len() < limit {
                    page.entries.push(entry);
                }
                page.total += 1;
            }
        })?;
        Ok(page)
    }

    /// The latest `limit`.
    pub fn latest(directory: &Path, filter: &Filter, limit: usize) -> io::Result<Self> {
        let (mut latest, mut page) = (VecDeque::new(), Self::default());
        walk(directory, filter, |entry, accepted| {
            page.last = entry.number;
            if accepted {
                page.total += 1;
                latest.push_back(entry);
                if latest.len() > limit {
                    latest.pop_front();
                }
            }
        })?;
        page.entries = latest.into();
        Ok(page)
    }
}

/// Every entry from the file on that has the first one meant. Lines that do
/// not unseal are left out: [`crate::verify`] names them.
fn walk(directory: &Path, filter: &Filter, mut each: impl FnMut(Entry, bool)) -> io::Result<()> {
    let files = list(directory)?;
    let next = filter.after.saturating_add(1);
    let begin = files.iter().rposition(|(first, _)| *first <= next);
    for (_, path) in &files[begin.unwrap_or(0)..] {
        let file = match File::open(path) {
            // Removed by its age meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let mut reader = BufReader::new(file);
        while let Some(line) = next_line(&mut reader)? {
            if let Some(entry) = Entry::unseal(&line) {
                let accepted = filter.accept(&entry);
                each(entry, accepted);
            }
        }
    }
    Ok(())
}

/// Reads entries as they are written, each once, from where it was.
#[derive(Debug)]
pub struct Follower {
    directory: PathBuf,
    number: u64,
    /// The first line of the file that is read, and how far.
    place: Option<(u64, u64)>,
}

impl Follower {
    /// Entries after this number.
    pub fn after(directory: &Path, number: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            number,
            place: None,
        }
    }

    /// The next ones, `limit` at most; none when there are none yet.
    pub fn next(&mut self, limit: usize) -> io::Result<Vec<Entry>> {
        let files = list(&self.directory)?;
        let from = self.place.map_or(self.number.saturating_add(1), |at| at.0);
        let begin = files.iter().rposition(|(first, _)| *first <= from);
        let mut found = Vec::new();
        for (first, path) in &files[begin.unwrap_or(0)..] {
            let offset = self.place.filter(|at| at.0 == *first).map_or(0, |at| at.1);
            let mut reader = BufReader::new(File::open(path)?);
            reader.seek(SeekFrom::Start(offset))?;
            self.place = Some((*first, offset));
            while let Some(line) = whole_line(&mut reader)? {
                self.place = Some((*first, reader.stream_position()?));
                match Entry::unseal(&line) {
                    Some(entry) if entry.number > self.number => {
                        self.number = entry.number;
                        found.push(entry);
                    }
                    _ => {}
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

/// The next line, unless it is still being written.
fn whole_line(reader: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)?;
    let is_whole = line.pop() == Some(b'\n') || line.len() as u64 + 1 == LONGEST_LINE;
    Ok(is_whole.then(|| String::from_utf8_lossy(&line).into_owned()))
}
