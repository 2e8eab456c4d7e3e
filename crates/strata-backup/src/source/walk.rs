//! Walks through the sources, deepest first and by name, which is the order
//! that the format wants.
//!
//! A source is one file system: what is mounted within it is not part of it,
//! and stays an empty directory.
//!
//! What runs in a container decides how deep its volumes are. A tree may be far
//! deeper than the kernel takes paths, so the walk goes from directory to
//! directory. It has an end all the same, as the memory for a tree grows with
//! the square of its depth: what lies below is left out and logged, for one
//! volume must not be what stops the backup of all others.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustic_core::repofile::Node;
use rustic_core::{ReadSourceEntry, RusticResult};

use super::read::SourceFile;
use super::root::{self, Root};
use super::{Shared, Source, node};
use crate::error::BackupError;
use crate::gate::Gate;

type Entry = ReadSourceEntry<SourceFile>;

/// So many directories are open at once; those further up are opened again when
/// the walk comes back to them.
const MAX_OPEN: usize = 64;
/// How deep a directory may lie to be entered, in directories and in bytes of its
/// path. Paths that the kernel takes have at most 2048 and 4096.
const MAX_LEVELS: usize = 2048;
const MAX_BYTES: usize = 32 << 10;

/// The walk. It ends early when something fails or it is cancelled; the gate
/// knows which.
pub(crate) struct Walk {
    shared: Arc<Shared>,
    sources: VecDeque<Source>,
    /// Directories on the way to a source that were reported already.
    passed: PathBuf,
    /// The source that is walked through.
    root: Option<Arc<Root>>,
    /// Where the directory lies below the root whose entries are being
    /// reported.
    inside: PathBuf,
    stack: Vec<OpenDirectory>,
    /// Whether anything of this source lay too deep.
    left_out: bool,
    devices: BTreeMap<u64, u64>,
    ready: VecDeque<Entry>,
}

/// A directory whose entries are being reported.
struct OpenDirectory {
    /// `None` when too many others are open.
    dir: Option<File>,
    names: std::vec::IntoIter<OsString>,
    device: u64,
}

impl Walk {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            sources: shared.sources.clone().into(),
            shared,
            passed: PathBuf::from("/"),
            root: None,
            inside: PathBuf::new(),
            stack: Vec::new(),
            left_out: false,
            devices: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    fn step(&mut self) -> Result<Option<Entry>, BackupError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let next = self.stack.last_mut().map(|level| level.names.next());
            match (next, &self.root) {
                (Some(Some(name)), Some(root)) => {
                    let root = root.clone();
                    self.add(&root, &name)
                        .map_err(|source| BackupError::Source {
                            path: root.path.join(&self.inside).join(&name),
                            source,
                        })?;
                }
                (Some(_), _) => {
                    self.stack.pop();
                    self.inside.pop();
                }
                (None, _) => match self.sources.pop_front() {
                    Some(source) => self.begin(&source)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn begin(&mut self, source: &Source) -> Result<(), BackupError> {
        // Files with several names are known by file system and number. The
        // numbers of file systems change with every mount and every frozen
        // copy; these do not, as sources have an order.
        let shown = PathBuf::from(&source.at);
        for dir in ancestors(&shown) {
            if !self.passed.starts_with(dir) {
                let node = match dir.file_name() {
                    Some(name) => node::bare_dir(name, self.shared.taken_at),
                    None => continue,
                };
                self.tell(dir.to_owned(), node, None);
            }
        }
        self.passed.clone_from(&shown);
        self.devices.clear();
        self.left_out = false;
        self.enter_source(source, shown)
            .map_err(|error| BackupError::Source {
                path: source.path.clone(),
                source: error,
            })
    }

    /// Reports a source, and enters it if it is a directory.
    fn enter_source(&mut self, source: &Source, shown: PathBuf) -> io::Result<()> {
        let place = root::source(&source.path)?;
        let stat = place.metadata()?;
        let (root, inside) = if stat.is_dir() {
            (Arc::new(Root::open(&source.path)?), PathBuf::new())
        } else {
            let name = source.path.file_name().unwrap_or_default();
            let dir = source.path.parent();
            let dir = dir.filter(|path| !path.as_os_str().is_empty());
            let dir = dir.unwrap_or(Path::new("."));
            (Arc::new(Root::open(dir)?), name.into())
        };
        self.root = Some(root.clone());
        let device = self.device(stat.dev());
        if let Some(name) = shown.file_name() {
            let node = node::node(&place, name, &stat, device)?;
            let open = stat.is_file().then(|| self.file(&root, inside, stat.len()));
            self.tell(shown, node, open);
        }
        if stat.is_dir() {
            self.enter(PathBuf::new(), place, stat.dev())?;
        }
        Ok(())
    }

    /// Reports one file of the current directory, and enters it if it is a
    /// directory of this file system.
    fn add(&mut self, root: &Arc<Root>, name: &OsStr) -> io::Result<()> {
        let Some(level) = self.stack.last_mut() else {
            return Ok(());
        };
        let dir = match level.dir.take() {
            Some(dir) => dir,
            None => root.place(&self.inside)?,
        };
        let place = root::child(&dir, name)?;
        level.dir = Some(dir);
        let within = level.device;
        let stat = place.metadata()?;
        let device = self.device(stat.dev());
        let inside = self.inside.join(name);
        let node = node::node(&place, name, &stat, device)?;
        let open = stat
            .is_file()
            .then(|| self.file(root, inside.clone(), stat.len()));
        self.tell(self.passed.join(&inside), node, open);
        if !stat.is_dir() || stat.dev() != within {
            return Ok(());
        }
        if self.stack.len() >= MAX_LEVELS || inside.as_os_str().len() > MAX_BYTES {
            self.leave_out(&inside);
            return Ok(());
        }
        self.enter(inside, place, stat.dev())
    }

    fn enter(&mut self, inside: PathBuf, dir: File, device: u64) -> io::Result<()> {
        let names = root::names(&dir)?.into_iter();
        if let Some(above) = self.stack.len().checked_sub(MAX_OPEN) {
            self.stack[above].dir = None;
        }
        self.inside = inside;
        self.stack.push(OpenDirectory {
            dir: Some(dir),
            names,
            device,
        });
        Ok(())
    }

    /// Logs it once for a source, and of a long path only the beginning: the
    /// author of such a tree can make many, and is not to fill the log.
    fn leave_out(&mut self, inside: &Path) {
        if !std::mem::replace(&mut self.left_out, true) {
            tracing::warn!(
                source = %self.passed.display(),
                below = %inside.iter().take(3).collect::<PathBuf>().display(),
                levels = self.stack.len(),
                bytes = inside.as_os_str().len(),
                "directory too deep: saved without its content"
            );
        }
    }

    fn file(&self, root: &Arc<Root>, inside: PathBuf, size: u64) -> SourceFile {
        SourceFile {
            root: root.clone(),
            inside,
            size,
            shared: self.shared.clone(),
        }
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

/// The directories above a place, the outermost first.
fn ancestors(shown: &Path) -> Vec<&Path> {
    let mut above: Vec<_> = shown.ancestors().skip(1).collect();
    above.reverse();
    above
}

/// How large the sources are together. `None` when something stands in the way:
/// the walk will meet it and report it. A tree that is deeper than paths are
/// long is not measured.
pub(super) fn measure(sources: &[Source], gate: &Gate) -> Option<u64> {
    let mut total = 0;
    let mut dirs = Vec::new();
    for source in sources {
        let stat = fs::metadata(&source.path).ok()?;
        if stat.is_dir() {
            dirs.push((source.path.clone(), stat.dev()));
        } else {
            total += stat.len();
        }
    }
    while let Some((dir, device)) = dirs.pop() {
        if !gate.is_open() {
            return None;
        }
        for entry in fs::read_dir(&dir).ok()? {
            let stat = entry.as_ref().ok()?.metadata().ok()?;
            if stat.is_file() {
                total += stat.len();
            } else if stat.is_dir() && stat.dev() == device {
                dirs.push((entry.ok()?.path(), device));
            }
        }
    }
    Some(total)
}
