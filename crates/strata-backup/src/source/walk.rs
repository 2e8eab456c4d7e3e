//! Walks through the sources, deepest first and by name, which is the order
//! that the format wants.
//!
//! A source is one file system: what is mounted within it is somebody else's,
//! and stays an empty folder.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustic_core::repofile::Node;
use rustic_core::{ReadSourceEntry, RusticResult};

use super::read::SourceFile;
use super::{Shared, Source, node};
use crate::error::BackupError;
use crate::gate::Gate;

type Entry = ReadSourceEntry<SourceFile>;

/// The walk. It ends early when something fails or nobody wants it any more;
/// the gate knows which.
pub(crate) struct Walk {
    shared: Arc<Shared>,
    sources: VecDeque<Source>,
    /// Folders on the way to a source that were told already.
    passed: PathBuf,
    stack: Vec<Level>,
    devices: BTreeMap<u64, u64>,
    ready: VecDeque<Entry>,
}

/// A folder whose entries are being told.
struct Level {
    real: PathBuf,
    shown: PathBuf,
    names: std::vec::IntoIter<OsString>,
    device: u64,
}

impl Walk {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            sources: shared.sources.clone().into(),
            shared,
            passed: PathBuf::from("/"),
            stack: Vec::new(),
            devices: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    fn step(&mut self) -> Result<Option<Entry>, BackupError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let Some(level) = self.stack.last_mut() else {
                match self.sources.pop_front() {
                    Some(source) => self.begin(&source)?,
                    None => return Ok(None),
                }
                continue;
            };
            let Some(name) = level.names.next() else {
                self.stack.pop();
                continue;
            };
            let (real, shown) = (level.real.join(&name), level.shown.join(&name));
            let device = level.device;
            self.add(real, shown, Some(device))?;
        }
    }

    fn begin(&mut self, source: &Source) -> Result<(), BackupError> {
        // Files with several names are known by file system and number. The
        // numbers of file systems change with every mount and every frozen
        // copy; these do not, as sources have an order.
        let shown = PathBuf::from(&source.at);
        for folder in ancestors(&shown) {
            if !self.passed.starts_with(folder) {
                let node = match folder.file_name() {
                    Some(name) => node::bare_folder(name, self.shared.taken_at),
                    None => continue,
                };
                self.tell(folder.to_owned(), node, None);
            }
        }
        self.passed.clone_from(&shown);
        self.devices.clear();
        self.add(source.path.clone(), shown, None)
    }

    /// Tells one file, and enters it if it is a folder of this file system.
    fn add(
        &mut self,
        real: PathBuf,
        shown: PathBuf,
        within: Option<u64>,
    ) -> Result<(), BackupError> {
        let failed = |source| BackupError::Source {
            path: real.clone(),
            source,
        };
        // What leads to a source may be a link; what is in it is not followed.
        let stat = match within {
            None => fs::metadata(&real),
            Some(_) => fs::symlink_metadata(&real),
        };
        let stat = stat.map_err(failed)?;
        let device = self.device(stat.dev());
        if let Some(name) = shown.file_name() {
            let node = node::node(&real, name, &stat, device).map_err(failed)?;
            let open = stat.is_file().then(|| SourceFile {
                path: real.clone(),
                size: stat.len(),
                shared: self.shared.clone(),
            });
            self.tell(shown.clone(), node, open);
        }
        if stat.is_dir() && within.is_none_or(|device| device == stat.dev()) {
            let names = names(&real).map_err(failed)?;
            self.stack.push(Level {
                real,
                shown,
                names: names.into_iter(),
                device: stat.dev(),
            });
        }
        Ok(())
    }

    fn tell(&mut self, path: PathBuf, node: Node, open: Option<SourceFile>) {
        if !node.is_dir() {
            self.shared.reporter.file();
        }
        self.ready.push_back(ReadSourceEntry { path, node, open });
    }

    fn device(&mut self, real: u64) -> u64 {
        let source = (self.shared.sources.len() - self.sources.len()) as u64;
        let next = (source << 16) + self.devices.len() as u64 + 1;
        *self.devices.entry(real).or_insert(next)
    }
}

impl Iterator for Walk {
    type Item = RusticResult<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.shared.gate.is_open() {
            return None;
        }
        match self.step() {
            Ok(entry) => entry.map(Ok),
            Err(error) => {
                self.shared.gate.fail(error);
                None
            }
        }
    }
}

/// The folders above a place, the outermost first.
fn ancestors(shown: &Path) -> Vec<&Path> {
    let mut above: Vec<_> = shown.ancestors().skip(1).collect();
    above.reverse();
    above
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(folder)?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// How large the sources are together. `None` when something stands in the
/// way: the walk will meet it and say so.
pub(super) fn measure(sources: &[Source], gate: &Gate) -> Option<u64> {
    let mut total = 0;
    let mut folders = Vec::new();
    for source in sources {
        let stat = fs::metadata(&source.path).ok()?;
        if stat.is_dir() {
            folders.push((source.path.clone(), stat.dev()));
        } else {
            total += stat.len();
        }
    }
    while let Some((folder, device)) = folders.pop() {
        if !gate.is_open() {
            return None;
        }
        for entry in fs::read_dir(&folder).ok()? {
            let stat = entry.as_ref().ok()?.metadata().ok()?;
            if stat.is_file() {
                total += stat.len();
            } else if stat.is_dir() && stat.dev() == device {
                folders.push((entry.ok()?.path(), device));
            }
        }
    }
    Some(total)
}
