//! From a packed layer to a directory that serves as a lower of an overlay.
//!
//! One thread unpacks the compression, the caller's thread hashes, parses and
//! writes, straight from the buffers that it got: the inflating is as much
//! work as all the rest, so the two run side by side. Nothing is synced here;
//! the store does that once for a whole image.
//!
//! A layer is never trusted. Its paths are taken apart and walked beneath its
//! own root by the kernel (`openat2`), through no symlink; what it unpacks to
//! is bounded; and the digest of the tar must be the one that the config names.
//! A layer that fails any of it leaves nothing behind.

mod attributes;
mod error;
mod extract;
mod input;
mod limits;
mod path;
mod root;
mod whiteout;

use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

pub use error::UnpackError;
pub use limits::Limits;

use crate::Digest;
use crate::tar::{TarError, TarReader};
use extract::Extractor;
pub(crate) use whiteout::OPAQUE;

/// What a layer unpacked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Bytes of the tar.
    pub bytes: u64,
    pub entries: u64,
}

/// Unpacks a layer into the directory `into`, which must not be there yet; on
/// failure it is not there afterwards either. Blocks: for a blocking thread.
///
/// `watch` receives how many packed bytes were read, and may cancel it.
pub fn unpack(
    packed: impl Read + Send,
    into: &Path,
    diff_id: Digest,
    limits: &Limits,
    watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<Unpacked, UnpackError> {
    unpack_charged(packed, into, diff_id, (limits, &|_| Ok(())), watch)
}

/// What is about to be written of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// Bytes of the tar.
    Bytes(u64),
    Entry,
}

/// Is called before anything is written, and may refuse it.
pub(crate) type ChargeHook<'a> = &'a dyn Fn(Charge) -> Result<(), UnpackError>;

/// The same, with a hook that counts what several layers unpack to.
pub(crate) fn unpack_charged(
    packed: impl Read + Send,
    into: &Path,
    diff_id: Digest,
    limits: (&Limits, ChargeHook<'_>),
    watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<Unpacked, UnpackError> {
    fs::create_dir(into).map_err(|source| UnpackError::root(into, source))?;
    let done = extract(packed, into, diff_id, limits, watch);
    if done.is_err()
        && let Err(error) = fs::remove_dir_all(into)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %into.display(), %error, "incomplete layer not removed");
    }
    done
}

fn extract(
    packed: impl Read + Send,
    into: &Path,
    diff_id: Digest,
    (limits, charge): (&Limits, ChargeHook<'_>),
    watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<Unpacked, UnpackError> {
    input::with(packed, (limits, charge), watch, |feed| {
        let mut extractor = Extractor::open(into, limits, charge)?;
        let mut tar = TarReader::new(feed);
        while let Some(entry) = tar.next()? {
            extractor.take(&entry, &mut tar)?;
        }
        let (found, bytes) = tar.finish()?.finish();
        if found != diff_id {
            return Err(UnpackError::DiffId {
                expected: diff_id,
                found,
            });
        }
        let entries = extractor.finish()?;
        Ok(Unpacked { bytes, entries })
    })
}

impl From<TarError> for UnpackError {
    fn from(error: TarError) -> Self {
        match error {
            TarError::Read(error) => Self::from_read(error),
            other => Self::Tar(other),
        }
    }
}
