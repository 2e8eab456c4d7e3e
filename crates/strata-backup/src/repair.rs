//! Finds packs that are not what was written, and has the repository do
//! without them. A pack is named by the hash of what is in it, so it proves
//! itself.
//!
//! What is still good of a damaged pack is put into a new one first. Then the
//! damaged one is removed and the index is set right, so that what is missing
//! is known to be: the next backup stores it again, where the data still
//! exists, and with that also heals older backups that need it. Killed in
//! between, nothing is lost that was not: the same again goes on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rustic_core::repofile::{BlobType, IndexBlob, IndexFile};
use rustic_core::{OpenStatus, RepairIndexOptions, Repository};
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, name_of};
use crate::error::{BackupError, Result};
use crate::progress::Phase;
use crate::rate_limiter::RateLimiter;
use crate::session::Session;
use crate::store::{FileKind, StoredFile};

/// Which packs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairScope {
    All,
    /// Those that changed since they were last found to be good, where the
    /// store can report it; none where it cannot.
    Changed,
}

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repaired {
    /// Packs that were read.
    pub checked: u64,
    /// Names of packs that were damaged or gone, and are not used any more.
    pub damaged: Vec<String>,
    /// Pieces of them that were good, and are in other packs now.
    pub saved: u64,
    /// Pieces that are gone until a backup stores them again.
    pub lost: u64,
}

/// What was found to be good: the stamps of packs.
type VerifiedPacks = HashMap<String, u64>;

/// The pieces of each pack, as the index has them.
type PackBlobs = BTreeMap<String, Vec<IndexBlob>>;

/// Looks for damage, and has the repository do without what is damaged.
pub(crate) fn run(session: &Session, scope: RepairScope) -> Result<Repaired> {
    let opened = session.open()?;
    let packs = session.store.list(FileKind::Data)?;
    let known = read_known(session);
    let is_due = |pack: &&StoredFile| match scope {
        RepairScope::All => true,
        RepairScope::Changed => pack.stamp != 0 && known.get(&pack.name) != Some(&pack.stamp),
    };
    let due: Vec<&StoredFile> = packs.iter().filter(is_due).collect();
    session.reporter.enter(Phase::Checking, None);
    let damaged = check(session, &due)?;
    let mut repaired = Repaired {
        checked: due.len() as u64,
        ..Repaired::default()
    };
    if !damaged.is_empty() || !missing(session, &opened, &damaged)?.1.is_empty() {
        let _lock = session.lock(&opened, true)?;
        // Again: another may have been at work until now.
        let (pieces, gone) = missing(session, &opened, &damaged)?;
        mend(session, &opened, &pieces, &gone, &damaged, &mut repaired)?;
    }
    let good = packs.iter().filter(|pack| !damaged.contains(&pack.name));
    let good: Vec<&StoredFile> = good.collect();
    keep_known(session, &good, &due, &known);
    session.gate.settle()?;
    session.reporter.done();
    Ok(repaired)
}

/// What is in which pack according to the index, and the packs that it names
/// and that are gone or damaged.
fn missing(
    session: &Session,
    opened: &Repository<OpenStatus>,
    damaged: &[String],
) -> Result<(PackBlobs, Vec<String>)> {
    let pieces = pieces(session, opened)?;
    let packs = session.store.list(FileKind::Data)?;
    let good = packs.iter().filter(|pack| !damaged.contains(&pack.name));
    let good: HashSet<&str> = good.map(|pack| pack.name.as_str()).collect();
    let gone = pieces.keys().filter(|name| !good.contains(name.as_str()));
    let gone = gone.cloned().collect();
    Ok((pieces, gone))
}

fn mend(
    session: &Session,
    opened: &Repository<OpenStatus>,
    pieces: &PackBlobs,
    gone: &[String],
    damaged: &[String],
    repaired: &mut Repaired,
) -> Result<()> {
    let cipher = Cipher::new(&opened.key());
    for name in gone {
        let blobs = pieces.get(name).map_or(&[][..], Vec::as_slice);
        let saved = match damaged.contains(name) {
            true => salvage(session, &cipher, name, blobs)?,
            false => 0,
        };
        repaired.saved += saved;
        repaired.lost += blobs.len() as u64 - saved;
        repaired.damaged.push(name.clone());
    }
    for name in damaged {
        session.store.remove(FileKind::Data, name)?;
    }
    let options = RepairIndexOptions::default();
    session.told("repairing the index", opened.repair_index(&options, false))
}

/// The packs that do not match their name.
fn check(session: &Session, packs: &[&StoredFile]) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let damaged = Mutex::new(Vec::new());
    let stopped = Mutex::new(None);
    let work = || {
        while let Some(pack) = packs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = session.gate.pass();
            let read = read.and_then(|()| session.store.read(FileKind::Data, &pack.name));
            match read {
                Ok(bytes) if name_of(&bytes) == pack.name => {
                    session.reporter.bytes(bytes.len() as u64);
                }
                Ok(_) | Err(BackupError::Storage { .. }) => lock(&damaged).push(pack.name.clone()),
                Err(BackupError::Missing { .. }) => {}
                Err(error) => {
                    next.store(packs.len(), Ordering::Relaxed);
                    lock(&stopped).get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..session.store.readers().min(packs.len()) {
            scope.spawn(work);
        }
    });
    match lock(&stopped).take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut *lock(&damaged))),
    }
}

/// What is in which pack according to the index.
fn pieces(session: &Session, opened: &Repository<OpenStatus>) -> Result<PackBlobs> {
    let mut pieces = PackBlobs::new();
    let files = session.told("reading the index", opened.stream_files::<IndexFile>())?;
    for file in files {
        let (_, file) = session.told("reading the index", file)?;
        for pack in file.packs {
            let all = pieces.entry(pack.id.to_hex().to_string()).or_default();
            all.extend(pack.blobs);
        }
    }
    Ok(pieces)
}

/// Puts what is good of a damaged pack into a new one; how many pieces that
/// are.
fn salvage(session: &Session, cipher: &Cipher, name: &str, blobs: &[IndexBlob]) -> Result<u64> {
    let Ok(bytes) = session.store.read(FileKind::Data, name) else {
        return Ok(0);
    };
    let good: Vec<(&IndexBlob, Bytes)> = blobs
        .iter()
        .filter_map(|blob| Some((blob, good_piece(cipher, &bytes, blob)?)))
        .collect();
    if good.is_empty() {
        return Ok(0);
    }
    let (mut pieces, mut header) = (Vec::new(), Vec::new());
    for (blob, piece) in &good {
        header.extend(entry(blob));
        pieces.push(piece.clone());
    }
    let header = cipher.seal(&header)?;
    let length = u32::try_from(header.len()).unwrap_or(u32::MAX);
    pieces.push(header);
    pieces.push(Bytes::copy_from_slice(&length.to_le_bytes()));
    let whole: Vec<u8> = pieces.concat();
    let pieces = [Bytes::from(whole)];
    let store = &session.store;
    store.write(
        FileKind::Data,
        &name_of(&pieces[0]),
        &pieces,
        &RateLimiter::free(),
    )?;
    Ok(good.len() as u64)
}

/// A piece as it lies in the pack, if it is what was written.
fn good_piece(cipher: &Cipher, pack: &Bytes, blob: &IndexBlob) -> Option<Bytes> {
    let from = blob.location.offset as usize;
    let to = from.checked_add(blob.location.length as usize)?;
    let piece = (to <= pack.len()).then(|| pack.slice(from..to))?;
    let mut text = cipher.open(&piece)?;
    if let Some(length) = blob.location.uncompressed_length {
        text = zstd::bulk::decompress(&text, length.get() as usize).ok()?;
    }
    (name_of(&text) == blob.id.to_hex().as_str()).then_some(piece)
}

/// The entry of a piece in the header of a pack.
fn entry(blob: &IndexBlob) -> Vec<u8> {
    let compressed = blob.location.uncompressed_length;
    let kind: u8 = match (blob.tpe, compressed) {
        (BlobType::Data, None) => 0,
        (BlobType::Tree, None) => 1,
        (BlobType::Data, Some(_)) => 2,
        (BlobType::Tree, Some(_)) => 3,
    };
    let mut entry = vec![kind];
    entry.extend(blob.location.length.to_le_bytes());
    if let Some(length) = compressed {
        entry.extend(length.get().to_le_bytes());
    }
    let id = blob.id.to_hex().to_string();
    let digits = (0..id.len()).step_by(2).filter_map(|at| id.get(at..at + 2));
    entry.extend(digits.filter_map(|two| u8::from_str_radix(two, 16).ok()));
    entry
}

fn read_known(session: &Session) -> VerifiedPacks {
    let text = session
        .checked_file()
        .and_then(|path| std::fs::read(path).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// Remembers what is good. That it cannot costs time the next time, no more.
fn keep_known(session: &Session, good: &[&StoredFile], due: &[&StoredFile], known: &VerifiedPacks) {
    let Some(path) = session.checked_file() else {
        return;
    };
    let was_read = |pack: &StoredFile| {
        let before = known.get(&pack.name) == Some(&pack.stamp);
        before || due.iter().any(|one| one.name == pack.name)
    };
    let now: VerifiedPacks = good
        .iter()
        .filter(|pack| pack.stamp != 0 && was_read(pack))
        .map(|pack| (pack.name.clone(), pack.stamp))
        .collect();
    let written = serde_json::to_vec(&now).map_err(std::io::Error::other);
    let written = written.and_then(|text| {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above)?;
        }
        let new = path.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(&new, &path)
    });
    if let Err(error) = written {
        tracing::debug!(%error, "list of verified packs not saved");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
