//! The files of the log: each is named after the number of its first line.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::Entry;

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";
/// Longer lines are none of ours.
pub(crate) const LONGEST_LINE: u64 = 64 << 10;

/// The name of the file that begins with this line.
pub(crate) fn name_of(first: u64) -> String {
    format!("{PREFIX}{first:020}{SUFFIX}")
}

/// All files, the oldest first, with the number of their first line.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX))
            .and_then(|number| number.parse().ok());
        if let Some(number) = number {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// The next line of a file without its end; none at the end of the file. A
/// last line that was cut short is given as it is, without being marked: it
/// does not unseal.
pub(crate) fn next_line(reader: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = reader
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// At most `limit` entries after a number, in order. Lines that do not unseal
/// are left out: [`crate::verify`] names them.
pub fn read_after(directory: &Path, number: u64, limit: usize) -> io::Result<Vec<Entry>> {
    let files = list(directory)?;
    let begin = files
        .iter()
        .rposition(|(first, _)| *first <= number.saturating_add(1));
    let mut found = Vec::new();
    for (_, path) in &files[begin.unwrap_or(0)..] {
        let mut reader = BufReader::new(File::open(path)?);
        while let Some(line) = next_line(&mut reader)? {
            match Entry::unseal(&line) {
                Some(entry) if entry.number > number => found.push(entry),
                _ => {}
            }
            if found.len() == limit {
                return Ok(found);
            }
        }
    }
    Ok(found)
}
