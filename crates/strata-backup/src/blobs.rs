//! The pieces of files, read and proven: the name of a piece is the hash of
//! what is in it.

use bytes::Bytes;
use rustic_core::repofile::BlobType;
use rustic_core::{BlobId, DataId, IndexedFull, Repository};

use crate::error::{BackupError, Result};
use crate::session::Session;

/// Where a piece lies: first the pack, then the place in it.
pub(crate) type BlobLocation = (String, u32);

/// Where a piece lies and how long it is; `None` if it is not in the index.
pub(crate) fn locate<S: IndexedFull>(
    repository: &Repository<S>,
    id: &DataId,
) -> Option<(BlobLocation, u32)> {
    let entry = repository.get_index_entry(id).ok()?;
    let pack = entry.pack.to_hex().to_string();
    Some(((pack, entry.location.offset), entry.data_length()))
}

/// Reads a piece, and proves that it is what was written.
pub(crate) fn read<S: IndexedFull>(
    session: &Session,
    repository: &Repository<S>,
    id: &DataId,
) -> Result<Bytes> {
    session.gate.pass()?;
    let damaged = |why: &str| {
        let at = locate(repository, id).map_or_else(String::new, |((pack, offset), _)| {
            format!(
                " in data/{}/{pack} at {offset}",
                pack.get(..2).unwrap_or("")
            )
        });
        BackupError::Damaged {
            what: format!("piece {}{at} {why}", id.to_hex().as_str()),
        }
    };
    let read = repository.get_blob_cached(&BlobId::from(*id), BlobType::Data);
    let bytes = read.map_err(|cause| match session.gate.explain("reading", cause) {
        // The cipher detects by itself that bytes are not what it wrote.
        BackupError::Engine { .. } => damaged("cannot be decrypted or unpacked"),
        BackupError::Missing { name } => damaged(&format!("is gone with {name}")),
        BackupError::Storage { source, .. } => damaged(&format!("cannot be read: {source}")),
        other => other,
    })?;
    if !id.blob_matches_reader(bytes.len() as u64, &mut &bytes[..]) {
        return Err(damaged("is not what was written"));
    }
    Ok(bytes)
}
