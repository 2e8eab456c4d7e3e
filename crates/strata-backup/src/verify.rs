//! Whether a backup can be restored, by doing so: the repository's own
//! account is checked, then files are read back and every piece of them is
//! compared with the hash that it was stored under.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rand::seq::SliceRandom as _;
use rustic_core::repofile::NodeType;
use rustic_core::{CheckOptions, DataId, IndexedFull, OpenStatus, Repository, TreeId};

use crate::error::{BackupError, Result};
use crate::progress::Phase;
use crate::session::Session;
use crate::{blobs, snapshot, tree};

/// More damage than this is not listed one by one.
const MAX_DAMAGE: usize = 1000;

/// What a look at a backup found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub id: String,
    /// How many files it has.
    pub files_in_all: u64,
    /// How many of them were read back.
    pub files: u64,
    /// How large those are together.
    pub bytes: u64,
    /// What is damaged. Empty is good.
    pub damage: Vec<Damage>,
    /// Other backups of the repository, whose snapshots cannot be read.
    pub unreadable: Vec<String>,
}

impl Verified {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// A thing that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The file or directory in the backup; empty for the repository itself.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// A file to be read back.
struct File {
    path: PathBuf,
    size: u64,
    pieces: Vec<DataId>,
}

/// Looks at the repository's account of the backup, and reads back so many
/// percent of its files.
pub(crate) fn run(session: &Session, id: &str, percent: u8) -> Result<Verified> {
    let opened = session.open()?;
    let _lock = session.lock_for_reading(&opened)?;
    let snapshots = session.snapshots(&opened)?;
    let unreadable = snapshots.unreadable.clone();
    let snapshot = snapshot::find(snapshots, id)?;
    let mut found = Verified {
        id: snapshot.id.to_hex().to_string(),
        unreadable,
        ..Verified::default()
    };
    session.reporter.enter(Phase::Checking, None);
    found.damage = check(session, &opened, snapshot.tree)?;
    let repository = session.told("reading the index", opened.to_indexed())?;
    let files = list(session, &repository, snapshot.tree, &mut found)?;
    let files = sample(files, percent);
    let total = files.iter().map(|file| file.size).sum();
    session.reporter.enter(Phase::Comparing, Some(total));
    compare(session, &repository, &files, &mut found)?;
    session.gate.settle()?;
    session.reporter.done();
    found.damage.sort();
    found.damage.dedup();
    found.damage.truncate(MAX_DAMAGE);
    Ok(found)
}

/// What the repository records of itself: packs that are there and have the
/// size they should, an index that names all that the tree needs.
fn check(
    session: &Session,
    repository: &Repository<OpenStatus>,
    tree: TreeId,
) -> Result<Vec<Damage>> {
    let results = repository.check_with_trees(CheckOptions::default(), vec![tree]);
    let results = session.told("checking the repository", results)?;
    session.gate.pass()?;
    let told = results.0.into_iter();
    // What is only a warning takes space and harms nothing, like a pack of a
    // backup that was killed.
    let serious = told.filter(|(level, _)| format!("{level:?}") == "Error");
    Ok(serious
        .map(|(_, error)| Damage {
            path: PathBuf::new(),
            what: one_line(&error.to_string()),
        })
        .collect())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All files of the tree. Directories that cannot be read are damage, and hide
/// what is in them.
fn list<S: IndexedFull>(
    session: &Session,
    repository: &Repository<S>,
    tree: TreeId,
    found: &mut Verified,
) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut pending = vec![(PathBuf::from("/"), tree)];
    while let Some((path, tree)) = pending.pop() {
        let tree = match tree::read(session, repository, tree) {
            Ok(tree) => tree,
            Err(error @ (BackupError::Cancelled | BackupError::Unreachable { .. })) => {
                return Err(error);
            }
            Err(error) => {
                let what = strata_types::chain(&error);
                found.damage.push(Damage { path, what });
                continue;
            }
        };
        for node in tree.nodes {
            let path = path.join(tree::name(&path, &node)?);
            if let Some(subtree) = node.subtree {
                pending.push((path, subtree));
            } else if node.node_type == NodeType::File {
                found.files_in_all += 1;
                files.push(File {
                    path,
                    size: node.meta.size,
                    pieces: node.content.unwrap_or_default(),
                });
            }
        }
    }
    Ok(files)
}

/// A random part of the files, at least one.
fn sample(mut files: Vec<File>, percent: u8) -> Vec<File> {
    if percent >= 100 {
        return files;
    }
    let wanted = (files.len() * usize::from(percent)).div_ceil(100).max(1);
    let mut random = rand::rng();
    let (chosen, _) = files.partial_shuffle(&mut random, wanted);
    let chosen = chosen.len();
    // The chosen are at the end.
    files.split_off(files.len() - chosen)
}

fn compare<S: IndexedFull + Sync>(
    session: &Session,
    repository: &Repository<S>,
    files: &[File],
    found: &mut Verified,
) -> Result<()> {
    // As they lie in the packs, so that each is read once and in one go.
    let mut order: Vec<_> = files.iter().collect();
    order.sort_by_cached_key(|file| {
        let first = file.pieces.first()?;
        blobs::locate(repository, first).map(|(place, _)| place)
    });
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let damage = Mutex::new(Vec::new());
    let stopped = Mutex::new(None);
    let work = || {
        while let Some(file) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            match read_back(session, repository, file) {
                Ok(None) => {
                    bytes.fetch_add(file.size, Ordering::Relaxed);
                }
                Ok(Some(what)) => lock(&damage).push(Damage {
                    path: file.path.clone(),
                    what,
                }),
                Err(error) => {
                    next.store(order.len(), Ordering::Relaxed);
                    lock(&stopped).get_or_insert(error);
                }
            }
            session.reporter.file();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..session.store.readers().min(order.len()) {
            scope.spawn(work);
        }
    });
    if let Some(error) = lock(&stopped).take() {
        return Err(error);
    }
    found.damage.append(&mut lock(&damage));
    found.files = files.len() as u64;
    found.bytes = bytes.into_inner();
    Ok(())
}

/// Reads a file back; returns what is wrong with it.
fn read_back<S: IndexedFull>(
    session: &Session,
    repository: &Repository<S>,
    file: &File,
) -> Result<Option<String>> {
    let mut size = 0;
    for id in &file.pieces {
        match blobs::read(session, repository, id) {
            Ok(bytes) => {
                size += bytes.len() as u64;
                session.reporter.bytes(bytes.len() as u64);
            }
            Err(BackupError::Damaged { what }) => return Ok(Some(what)),
            Err(error) => return Err(error),
        }
    }
    if size != file.size {
        return Ok(Some(format!(
            "it has {size} bytes instead of {}",
            file.size
        )));
    }
    Ok(None)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
