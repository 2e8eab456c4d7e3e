//! Small records on disk as JSON: readable by people, whole or absent.
//!
//! They guard against the death of the daemon, not of the machine: a cell
//! does not survive the machine either, so nothing here waits for the disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a record that was not there. It is one write of a few hundred
/// bytes, which the death of this process does not tear.
pub fn create_record(path: &Path, record: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(&bytes)
}

/// Reads a record; none when there is none, or when its writer died before
/// the one write.
pub fn read_record<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Ok(None),
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
