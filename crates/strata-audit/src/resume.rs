//! Where a log that is there goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::files::{LONGEST_LINE, list, name_of, next_line};
use crate::{Anchor, Entry};

/// The file that is written to, and what is in it.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) file: File,
    /// The number of its first line, after which it is named.
    pub(crate) first: u64,
    pub(crate) size: u64,
    /// The last line of the log.
    pub(crate) last: Anchor,
}

impl Current {
    /// A file for what follows a line.
    pub(crate) fn after(directory: &Path, last: Anchor) -> io::Result<Self> {
        let first = last.number.saturating_add(1);
        let file = create(directory, first)?;
        Ok(Self {
            size: file.metadata()?.len(),
            file,
            first,
            last,
        })
    }
}

fn create(directory: &Path, first: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(directory.join(name_of(first)))
}

/// Finds the end of the last file.
pub(crate) fn resume(path: &Path, first: u64) -> io::Result<Current> {
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
    Ok(Current {
        file,
        first,
        size,
        last: Anchor {
            number,
            hash: last_hash,
        },
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
fn after_damage(path: &Path, number: u64) -> io::Result<Current> {
    const BEYOND: u64 = 1 << 32;
    tracing::error!(path = %path.display(), "audit log is damaged; another chain begins");
    let directory = path.parent().unwrap_or(Path::new("."));
    let last = Anchor {
        number: number + BEYOND,
        hash: String::new(),
    };
    Current::after(directory, last)
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
