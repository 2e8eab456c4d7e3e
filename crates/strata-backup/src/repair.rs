//! Finds packs that are not what was written, and has the repository do
//! without them. A pack is named by the hash of what is in it, so it proves
//! itself.
//!
//! What is still good of a damaged pack is put into a new one first. Then the
//! damaged one is removed and the index is set right, so that what is missing
//! is known to be: the next backup stores it again, where the data still
//! exists, and with that also heals older backups that need it. Killed in
//! between, nothing is lost that was not: the same again goes on.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use jiff::Timestamp;
use rustic_core::repofile::{BlobType, IndexBlob, IndexFile};
use rustic_core::{OpenStatus, Repository};
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, name_of};
use crate::damaged_files;
use crate::error::Result;
use crate::progress::Phase;
use crate::rate_limiter::RateLimiter;
use crate::session::Session;
use crate::store::{FileKind, StoredFile};
use crate::verified_packs::{RepairScope, VerifiedPacks};

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Repaired {
    /// Packs that were read.
    pub checked: u64,
    /// Names of packs that were damaged or gone, and are not used any more.
    pub damaged: Vec<String>,
    /// Pieces of them that were good, and are in other packs now.
    pub saved: u64,
    /// Pieces that are gone until a backup stores them again.
    pub lost: u64,
    /// Damaged indexes. What they named is indexed again.
    pub indexes: Vec<String>,
    /// Backups whose snapshots were damaged, and are out of the way now.
    pub set_aside: Vec<String>,
    /// Backups whose snapshots cannot be read, and are still there.
    pub unreadable: Vec<String>,
}

/// The pieces of each pack, as the index has them.
type PackBlobs = BTreeMap<String, Vec<IndexBlob>>;

/// Looks for damage, and has the repository do without what is damaged.
pub(crate) fn run(session: &Session, scope: RepairScope) -> Result<Repaired> {
    let opened = session.open()?;
    let packs = session.store.list(FileKind::Data)?;
    let (list, now_ms) = (session.checked_file(), Timestamp::now().as_millisecond());
    let known = VerifiedPacks::read(list.as_deref());
    let due = known.due(&packs, scope, session.store.is_far(), now_ms);
    session.reporter.enter(Phase::Checking, None);
    let damage = DamagedFiles {
        packs: damaged_files::find(session, FileKind::Data, &due)?,
        indexes: damaged_indexes(session, &opened, scope)?,
        snapshots: match scope {
            RepairScope::All => damaged_files::find_all(session, FileKind::Snapshots)?,
            RepairScope::Changed => Vec::new(),
        },
    };
    let mut repaired = Repaired {
        checked: due.len() as u64,
        ..Repaired::default()
    };
    let is_incomplete = damaged_files::is_index_incomplete(session)?;
    if is_incomplete || damage.is_any() || !missing(session, &opened, &damage.packs)?.1.is_empty() {
        let _lock = session.lock(&opened, true)?;
        repair(session, &opened, &damage, &mut repaired)?;
    }
    repaired.unreadable = session.snapshots(&opened)?.unreadable;
    let good = packs.iter();
    let good = good.filter(|pack| !damage.packs.contains(&pack.name));
    let good: Vec<&StoredFile> = good.collect();
    known.next(&good, &due, now_ms).save(list.as_deref());
    session.gate.settle()?;
    session.reporter.done();
    Ok(repaired)
}

/// Files that do not match their names.
struct DamagedFiles {
    packs: Vec<String>,
    indexes: Vec<String>,
    snapshots: Vec<String>,
}

impl DamagedFiles {
    fn is_any(&self) -> bool {
        !(self.packs.is_empty() && self.indexes.is_empty() && self.snapshots.is_empty())
    }
}

/// An index is read by every backup, so a damaged one ends them all. Where
/// reading costs, the engine has copies, and one that it can read is enough.
fn damaged_indexes(
    session: &Session,
    opened: &Repository<OpenStatus>,
    scope: RepairScope,
) -> Result<Vec<String>> {
    let is_cheap = scope == RepairScope::All || !session.store.is_far();
    match is_cheap || pieces(session, opened).is_err() {
        true => damaged_files::find_all(session, FileKind::Index),
        false => Ok(Vec::new()),
    }
}

/// Repairs with the repository locked. What is missing is determined again:
/// another process may have been at work until now. Indexes are first, since
/// what is good of a damaged pack is found by its index.
fn repair(
    session: &Session,
    opened: &Repository<OpenStatus>,
    damage: &DamagedFiles,
    repaired: &mut Repaired,
) -> Result<()> {
    repaired.set_aside = damaged_files::set_aside(session, FileKind::Snapshots, &damage.snapshots)?;
    repaired.indexes = damaged_files::set_aside(session, FileKind::Index, &damage.indexes)?;
    if damaged_files::is_index_incomplete(session)? {
        damaged_files::index_again(session, opened)?;
    }
    let (pieces, gone) = missing(session, opened, &damage.packs)?;
    if !gone.is_empty() || !damage.packs.is_empty() {
        mend(session, opened, &pieces, &gone, &damage.packs, repaired)?;
    }
    Ok(())
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
    let known: HashSet<&String> = gone.iter().collect();
    let unindexed = damaged.iter().filter(|name| !known.contains(name));
    repaired.damaged.extend(unindexed.cloned());
    damaged_files::index_again(session, opened)
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
