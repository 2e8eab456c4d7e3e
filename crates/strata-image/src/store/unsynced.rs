//! What a loss of power could have torn.
//!
//! A rename may reach the disk before the bytes of what was renamed. Instead
//! of waiting for the disk at each of them, a note is made before the rename,
//! with the boot in which it was made; after a pull everything is synced at
//! once and the notes go. A note of another boot means that what it names is
//! not to be trusted.

use std::fs;
use std::io;
use std::path::Path;

use super::Inner;
use super::flight::WorkItem;
use super::paths::Paths;
use crate::Digest;

/// What distinguishes one boot of this machine from the next.
pub(super) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn name(work: WorkItem) -> String {
    match work {
        WorkItem::Blob(digest) => format!("blob-{}", digest.hex()),
        WorkItem::Layer(diff_id) => format!("layer-{}", diff_id.hex()),
    }
}

fn parse(name: &str) -> Option<WorkItem> {
    let (kind, hex) = name.split_once('-')?;
    let digest = Digest::from_hex(hex).ok()?;
    match kind {
        "blob" => Some(WorkItem::Blob(digest)),
        "layer" => Some(WorkItem::Layer(digest)),
        _ => None,
    }
}

impl Inner {
    /// Notes that this is about to come into its place.
    pub(super) fn note_unsynced(&self, work: WorkItem) -> io::Result<()> {
        fs::write(self.paths.unsynced().join(name(work)), &self.boot)
    }

    /// Waits until all of the store is on the disk, and takes the notes of
    /// what was there before away.
    pub(super) fn sync(&self) -> io::Result<()> {
        let notes: Vec<_> = fs::read_dir(self.paths.unsynced())?.collect::<io::Result<_>>()?;
        if notes.is_empty() {
            return Ok(());
        }
        rustix::fs::syncfs(fs::File::open(self.paths.root())?)?;
        for note in notes {
            fs::remove_file(note.path())?;
        }
        Ok(())
    }
}

/// Removes what another boot left unsynced.
pub(super) fn distrust(paths: &Paths, boot: &str) -> io::Result<()> {
    for note in fs::read_dir(paths.unsynced())? {
        let note = note?;
        if !boot.is_empty() && fs::read_to_string(note.path()).is_ok_and(|noted| noted == boot) {
            continue;
        }
        match note.file_name().to_str().and_then(parse) {
            Some(WorkItem::Blob(digest)) => remove(&paths.blob(&digest))?,
            Some(WorkItem::Layer(diff_id)) => remove(&paths.layer(&diff_id))?,
            None => {}
        }
        fs::remove_file(note.path())?;
    }
    Ok(())
}

/// A file or a directory with all in it, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
