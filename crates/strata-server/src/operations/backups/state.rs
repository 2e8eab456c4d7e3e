//! Strata's own state as files, for a backup: what it takes to begin again on
//! an empty machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use strata_store::Store;
use strata_types::{Error, Result};

use super::BackupTarget;

/// The records, as `strata store import` reads them.
pub(super) const RECORDS: &str = "records";
/// The key that opens them.
const KEY: &str = "store.key";
/// What is saved of the data directory as it is.
const SAVED: [&str; 3] = ["audit", CA, "tokens.json"];
/// Its files belong together: no step of a rotation happens while they are
/// copied.
const CA: &str = "ca";

fn dir(target: &BackupTarget, tag: &str) -> PathBuf {
    target.data_dir.join("backup/state").join(tag)
}

/// Writes the state down. Done again, it is as it was the first time.
pub(super) async fn keep(target: &BackupTarget, store: &dyn Store, tag: &str) -> Result<PathBuf> {
    let whole = dir(target, tag);
    if whole.exists() {
        return Ok(whole);
    }
    let cannot = |error: io::Error| {
        Error::unavailable(format!(
            "the state cannot be written down for a backup: {error}"
        ))
        .with_hint("is the disk of the data directory full?")
    };
    let part = dir(target, &format!("{tag}.part"));
    remove_dir(&part).map_err(cannot)?;
    make_private(&part).map_err(cannot)?;
    let mut records = Vec::new();
    let exported = strata_store::export(store, &mut records).await;
    exported.map_err(|error| Error::unavailable(strata_types::chain(&error)))?;
    let (from, to) = (target.data_dir.clone(), part.clone());
    let key_file = target.key_file.clone();
    let written = tokio::task::spawn_blocking(move || {
        write_private(&to.join(RECORDS), &records)?;
        let saved = SAVED.map(|name| (name, from.join(name)));
        for (name, from) in saved.into_iter().chain([(KEY, key_file)]) {
            let to = to.join(name);
            if from.exists() {
                let still = (name == CA).then(|| strata_identity::lock_ca(&from));
                let _still = still.transpose()?;
                copy(&from, &to)?;
            }
        }
        fs::rename(&to, &whole)?;
        Ok(whole)
    });
    let written = written
        .await
        .map_err(|error| cannot(io::Error::other(error)))?;
    written.map_err(cannot)
}

/// Takes it away. Gone already is fine.
pub(super) async fn remove_copy(target: &BackupTarget, tag: &str) -> Result<()> {
    for name in [tag.to_owned(), format!("{tag}.part")] {
        let gone = remove_dir(&dir(target, &name));
        gone.map_err(|error| Error::unavailable(format!("the state's copy stays: {error}")))?;
    }
    Ok(())
}

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file or a directory of files, for its owner alone.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        make_private(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut File::open(from)?, &mut bytes)?;
    write_private(to, &bytes)
}
