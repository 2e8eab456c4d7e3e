//! Files whose content is written together.
//!
//! A batch bounds the memory that a restore takes. Within it the pieces are
//! fetched in the order in which they lie in the packs, by several threads;
//! a large file is cut, so that one of them does not hold up the rest.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustic_core::repofile::{Metadata, Node};
use rustic_core::{DataId, IndexedFull, Repository};

use super::beneath::Beneath;
use super::content;
use crate::blobs;
use crate::error::{BackupError, Result};
use crate::session::Session;

/// How many files and pieces are in memory at once, by name and number.
const MAX_FILES: usize = 10_000;
const MAX_PIECES: usize = 50_000;
/// How many pieces of a file one thread writes; one is a megabyte or so.
const CUT: usize = 16;

/// A file to be written.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) meta: Metadata,
    pieces: Vec<DataId>,
    /// Cuts that are not written yet.
    left: AtomicUsize,
}

impl File {
    pub(super) fn new(path: PathBuf, node: Node) -> Self {
        let pieces = node.content.unwrap_or_default();
        Self {
            path,
            size: node.meta.size,
            meta: node.meta,
            left: AtomicUsize::new(pieces.len().div_ceil(CUT).max(1)),
            pieces,
        }
    }

    /// Whether it has to be created before its content is there.
    pub(super) fn wants_to_be_made_first(&self) -> bool {
        self.meta.links > 1 || self.pieces.len() > CUT
    }

    /// Notes that a cut is written; true for the last.
    pub(super) fn is_whole_now(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A part of a file that one thread writes.
struct FileSlice {
    place: blobs::BlobLocation,
    file: usize,
    offset: u64,
    from: usize,
    to: usize,
}

#[derive(Default)]
pub(super) struct Batch {
    files: Vec<File>,
    pieces: usize,
}

/// What a batch came to.
#[derive(Default)]
pub(super) struct BatchResult {
    pub(super) bytes: u64,
    pub(super) attributes_left_out: u64,
}

impl Batch {
    pub(super) fn push(&mut self, file: File) {
        self.pieces += file.pieces.len();
        self.files.push(file);
    }

    pub(super) fn is_full(&self) -> bool {
        self.files.len() >= MAX_FILES || self.pieces >= MAX_PIECES
    }

    /// Writes all of it.
    pub(super) fn write<S: IndexedFull + Sync>(
        self,
        session: &Session,
        repository: &Repository<S>,
        root: &Beneath,
    ) -> Result<BatchResult> {
        let cuts = self.cuts(repository)?;
        let next = AtomicUsize::new(0);
        let left_out = AtomicU64::new(0);
        let first_error = Mutex::new(None);
        let work = || {
            while let Some(cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let file = &self.files[cut.file];
                let pieces = &file.pieces[cut.from..cut.to];
                match content::write(session, repository, root, file, cut.offset, pieces) {
                    Ok(left) => {
                        left_out.fetch_add(left, Ordering::Relaxed);
                    }
                    Err(error) => {
                        next.store(cuts.len(), Ordering::Relaxed);
                        note(&first_error, error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..session.store.readers().min(cuts.len()) {
                scope.spawn(work);
            }
        });
        let first = first_error
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(error) = first {
            return Err(error);
        }
        Ok(BatchResult {
            bytes: self.files.iter().map(|file| file.size).sum(),
            attributes_left_out: left_out.into_inner(),
        })
    }

    fn cuts<S: IndexedFull>(&self, repository: &Repository<S>) -> Result<Vec<FileSlice>> {
        let mut cuts = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            let mut offset = 0;
            let mut from = 0;
            for pieces in file.pieces.chunks(CUT) {
                let mut place = None;
                let start = offset;
                for id in pieces {
                    let (at, length) =
                        blobs::locate(repository, id).ok_or_else(|| BackupError::Damaged {
                            what: format!(
                                "piece {} of {} is not in the index",
                                id.to_hex().as_str(),
                                file.path.display()
                            ),
                        })?;
                    place.get_or_insert(at);
                    offset += u64::from(length);
                }
                cuts.push(FileSlice {
                    place: place.unwrap_or_default(),
                    file: number,
                    offset: start,
                    from,
                    to: from + pieces.len(),
                });
                from += pieces.len();
            }
            if file.pieces.is_empty() {
                cuts.push(FileSlice {
                    place: blobs::BlobLocation::default(),
                    file: number,
                    offset: 0,
                    from: 0,
                    to: 0,
                });
            }
            if offset != file.size {
                return Err(BackupError::Damaged {
                    what: format!(
                        "{} has pieces of {offset} bytes for {} bytes",
                        file.path.display(),
                        file.size
                    ),
                });
            }
        }
        cuts.sort_by(|a, b| (&a.place, a.offset).cmp(&(&b.place, b.offset)));
        Ok(cuts)
    }
}

fn note(first: &Mutex<Option<BackupError>>, error: BackupError) {
    let mut first = first
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    first.get_or_insert(error);
}
