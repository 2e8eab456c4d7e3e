//! Bringing files back.
//!
//! Directories, links and special files are made while the tree is walked. The
//! content of files is written in batches by several threads, in the order
//! in which it lies in the packs. Directories get their owners, modes and times
//! last, as what is made in them changes their times, and as one that may not
//! be written to could not be filled.
//!
//! Nothing is ever written outside of the target: names are proven, and the
//! kernel is set not to follow links on the way (see [`beneath`]).

mod attributes;
mod batch;
mod beneath;
mod content;
#[cfg(test)]
mod hostile_tests;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustic_core::repofile::{Metadata, Node, NodeType, SnapshotFile};
use rustic_core::{IndexedFull, Repository, TreeId};
use rustix::fs::{AtFlags, FileType, Mode};

use crate::error::{BackupError, Result};
use crate::progress::Phase;
use crate::session::Session;
use crate::tree::{self, TreeEntry};
use crate::{blobs, snapshot, source};
use batch::{Batch, File};
use beneath::Beneath;

/// What is to be brought back, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The file or directory in the backup: `/volumes/web`, or `/` for all.
    pub from: String,
    /// What it becomes. A directory may be there if it is empty; a file must
    /// not be there.
    pub to: PathBuf,
}

/// What was brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// How many files, links and special files.
    pub files: u64,
    /// How large they are together.
    pub bytes: u64,
    /// How many extended attributes the file system would not take.
    pub attributes_left_out: u64,
}

pub(crate) fn run(session: &Session, id: &str, ask: &RestoreOptions) -> Result<Restored> {
    let opened = session.open()?;
    let _lock = session.lock_for_reading(&opened)?;
    let snapshot = snapshot::find(session.snapshots(&opened)?, id)?;
    let repository = session.told("reading the index", opened.to_indexed())?;
    let found = tree::find(session, &repository, &snapshot, &ask.from)?;
    session
        .reporter
        .enter(Phase::Restoring, expected(&snapshot, &ask.from));
    let restored = match found {
        TreeEntry::Root(tree) => dir(session, &repository, tree, None, &ask.to)?,
        TreeEntry::Node(node) => match node.subtree {
            Some(tree) => dir(session, &repository, tree, Some(&node.meta), &ask.to)?,
            None => single(session, &repository, *node, &ask.to)?,
        },
    };
    session.gate.settle()?;
    session.reporter.done();
    Ok(restored)
}

/// How large the files of a file or directory of a backup are together.
pub(crate) fn measure(session: &Session, id: &str, from: &str) -> Result<u64> {
    let opened = session.open()?;
    let _lock = session.lock_for_reading(&opened)?;
    let snapshot = snapshot::find(session.snapshots(&opened)?, id)?;
    let repository = session.told("reading the index", opened.to_indexed())?;
    let mut pending = Vec::new();
    let mut bytes = 0_u64;
    match tree::find(session, &repository, &snapshot, from)? {
        TreeEntry::Root(tree) => pending.push(tree),
        TreeEntry::Node(node) => match node.subtree {
            Some(tree) => pending.push(tree),
            None => bytes = stored_bytes(&repository, &node),
        },
    }
    // A file with several names is written once.
    let mut linked = HashSet::new();
    while let Some(tree) = pending.pop() {
        for node in tree::read(session, &repository, tree)?.nodes {
            let link = (node.meta.device_id, node.meta.inode);
            match node.subtree {
                Some(tree) => pending.push(tree),
                None if node.meta.links > 1 && !linked.insert(link) => {}
                None => bytes = bytes.saturating_add(stored_bytes(&repository, &node)),
            }
        }
    }
    Ok(bytes)
}

/// What a file takes when it is written: holes take nothing, and are pieces
/// that are the same many times.
fn stored_bytes<S: IndexedFull>(repository: &Repository<S>, node: &Node) -> u64 {
    let mut seen = HashSet::new();
    let pieces = node.content.iter().flatten().filter(|id| seen.insert(**id));
    let sizes =
        pieces.map(|id| blobs::locate(repository, id).map_or(0, |(_, size)| u64::from(size)));
    sizes.sum()
}

/// Only for all of it the size is known beforehand.
fn expected(snapshot: &SnapshotFile, from: &str) -> Option<u64> {
    let size = snapshot.summary.as_ref()?.total_bytes_processed;
    (from.trim_matches('/').is_empty() && size > 0).then_some(size)
}

fn dir<S: IndexedFull + Sync>(
    session: &Session,
    repository: &Repository<S>,
    tree: TreeId,
    meta: Option<&Metadata>,
    to: &Path,
) -> Result<Restored> {
    let mut restore = Restore::new(session, repository, Beneath::dir(to)?);
    restore.walk(tree)?;
    if let Some(meta) = meta {
        restore.dirs.insert(0, (PathBuf::new(), meta.clone()));
    }
    restore.finish()
}

/// One file: its directory is the root that nothing leaves.
fn single<S: IndexedFull + Sync>(
    session: &Session,
    repository: &Repository<S>,
    mut node: Node,
    to: &Path,
) -> Result<Restored> {
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(BackupError::Exists { path: to.into() });
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let mut restore = Restore::new(session, repository, Beneath::existing(parent)?);
    node.meta.links = 0;
    let here = restore.root.open_dir(Path::new(""))?;
    restore.file(&here, PathBuf::from(name), node)?;
    restore.finish()
}

struct Restore<'a, S> {
    session: &'a Session,
    repository: &'a Repository<S>,
    root: Beneath,
    dirs: Vec<(PathBuf, Metadata)>,
    /// Files with several names, by file system and number: the first name.
    linked: HashMap<(u64, u64), PathBuf>,
    batch: Batch,
    done: Restored,
}

impl<'a, S: IndexedFull + Sync> Restore<'a, S> {
    fn new(session: &'a Session, repository: &'a Repository<S>, root: Beneath) -> Self {
        Self {
            session,
            repository,
            root,
            dirs: Vec::new(),
            linked: HashMap::new(),
            batch: Batch::default(),
            done: Restored::default(),
        }
    }

    fn walk(&mut self, tree: TreeId) -> Result<()> {
        let mut pending = vec![(PathBuf::new(), tree)];
        while let Some((path, tree)) = pending.pop() {
            let tree = tree::read(self.session, self.repository, tree)?;
            let here = self.root.open_dir(&path)?;
            for node in tree.nodes {
                let name = tree::name(&path, &node)?;
                let path = path.join(name);
                let NodeType::Dir = node.node_type else {
                    self.file(&here, path, node)?;
                    continue;
                };
                here.make_dir(&path)?;
                if let Some(subtree) = node.subtree {
                    pending.push((path.clone(), subtree));
                }
                self.dirs.push((path, node.meta));
            }
        }
        Ok(())
    }

    fn file(&mut self, here: &beneath::DirHandle, path: PathBuf, node: Node) -> Result<()> {
        self.done.files += 1;
        self.session.reporter.file();
        if node.meta.links > 1 {
            let key = (node.meta.device_id, node.meta.inode);
            if let Some(first) = self.linked.get(&key) {
                return self.root.link(first, here, &path);
            }
            self.linked.insert(key, path.clone());
        }
        let failed = |error: rustix::io::Errno| BackupError::restore(&path, error);
        let name = beneath::last(&path);
        let special =
            |kind, device| rustix::fs::mknodat(here, name, kind, Mode::RUSR | Mode::WUSR, device);
        match &node.node_type {
            NodeType::File => return self.add(here, path, node),
            NodeType::Symlink { .. } => rustix::fs::symlinkat(node.node_type.to_link(), here, name),
            NodeType::Dev { device } => special(FileType::BlockDevice, *device),
            NodeType::Chardev { device } => special(FileType::CharacterDevice, *device),
            NodeType::Fifo => special(FileType::Fifo, 0),
            NodeType::Socket => special(FileType::Socket, 0),
            NodeType::Dir => Ok(()),
        }
        .map_err(failed)?;
        let left = attributes::apply_by_name(here, name, &node.meta, node.is_symlink());
        self.done.attributes_left_out +=
            left.map_err(|error| BackupError::restore(&path, error))?;
        Ok(())
    }

    fn add(&mut self, here: &beneath::DirHandle, path: PathBuf, node: Node) -> Result<()> {
        // What more than one thread or name will request is there at once.
        let file = File::new(path, node);
        if file.wants_to_be_made_first() {
            here.make_file(&file.path, file.size)?;
        }
        self.batch.push(file);
        if self.batch.is_full() {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let written = batch.write(self.session, self.repository, &self.root)?;
        self.done.bytes += written.bytes;
        self.done.attributes_left_out += written.attributes_left_out;
        Ok(())
    }

    fn finish(mut self) -> Result<Restored> {
        self.write()?;
        // The deepest first: what is done within a directory changes its time.
        for (path, meta) in self.dirs.iter().rev() {
            let dir = self.root.open_dir(path)?;
            let left = attributes::apply(&dir, meta);
            self.done.attributes_left_out +=
                left.map_err(|error| BackupError::restore(path, error))?;
        }
        Ok(self.done)
    }
}

/// The permissions that a file had. None at all are left out when they are
/// stored.
fn mode(meta: &Metadata) -> Mode {
    Mode::from_raw_mode(source::mode_from_go(meta.mode.unwrap_or(0)))
}

/// Never through a link.
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
