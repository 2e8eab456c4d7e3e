//! The names of cells that were freed, so that freeing twice is distinguished
//! from freeing what never was. Bounded: the oldest are dropped. Kept in a
//! file, a name a line; a file that cannot be written costs only that.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use strata_types::CellName;

/// How many names are remembered.
const MAX_NAMES: usize = 65_536;

#[derive(Default)]
pub(crate) struct FreedNames {
    known: HashSet<CellName>,
    oldest_first: VecDeque<CellName>,
    file: PathBuf,
    lines: usize,
}

impl FreedNames {
    /// Reads what was kept.
    pub(crate) fn open(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut freed = Self::default();
        for name in text.lines().filter_map(|line| line.parse().ok()) {
            freed.remember(&name);
        }
        freed.lines = text.lines().count();
        freed.file = file;
        freed
    }

    pub(crate) fn contains(&self, name: &CellName) -> bool {
        self.known.contains(name)
    }

    pub(crate) fn add(&mut self, name: &CellName) {
        if self.remember(name) && self.keep(name).is_err() {
            tracing::warn!(cell = %name, "name of the freed cell not saved");
        }
    }

    /// Adds a line, and writes the file again when most of it is old.
    fn keep(&mut self, name: &CellName) -> std::io::Result<()> {
        let mut open = fs::OpenOptions::new();
        open.create(true).mode(0o600);
        if self.lines < 2 * MAX_NAMES {
            self.lines += 1;
            return open
                .append(true)
                .open(&self.file)?
                .write_all(format!("{name}\n").as_bytes());
        }
        let names: String = self
            .oldest_first
            .iter()
            .map(|name| format!("{name}\n"))
            .collect();
        let new = self.file.with_extension("new");
        open.write(true)
            .truncate(true)
            .open(&new)?
            .write_all(names.as_bytes())?;
        self.lines = self.oldest_first.len();
        fs::rename(new, &self.file)
    }

    fn remember(&mut self, name: &CellName) -> bool {
        if !self.known.insert(name.clone()) {
            return false;
        }
        self.oldest_first.push_back(name.clone());
        if self.oldest_first.len() > MAX_NAMES
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_names_are_forgotten_first() {
        let name = |i: usize| format!("c{i}").parse::<CellName>().unwrap();
        let mut freed = FreedNames::default();
        for i in 0..MAX_NAMES + 10 {
            freed.remember(&name(i));
            freed.remember(&name(i));
        }
        assert!(!freed.contains(&name(9)));
        assert!(freed.contains(&name(10)));
        assert_eq!(freed.known.len(), MAX_NAMES);
    }

    #[test]
    fn names_are_known_after_a_restart_and_the_file_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("freed");
        let name = |i: usize| format!("c{i}").parse::<CellName>().unwrap();
        let mut freed = FreedNames::open(file.clone());
        freed.add(&name(1));
        let mut freed = FreedNames::open(file.clone());
        assert!(freed.contains(&name(1)) && !freed.contains(&name(2)));
        freed.lines = 2 * MAX_NAMES;
        freed.add(&name(2));
        assert_eq!(fs::read_to_string(&file).unwrap(), "c1\nc2\n");
    }
}
