//! The revision of the last write that was acknowledged, beside the file.
//!
//! A page that was damaged can make the engine go back to the commit before,
//! as it does after a crash, and nothing in the file shows the difference. So
//! each acknowledged revision is noted here, after it is on disk and without
//! a sync of its own: this is never ahead of the file, unless the file lost
//! something.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::Revision;

/// The name of the file.
pub(super) const NAME: &str = "store.revision";

#[derive(Debug)]
pub(super) struct RevisionMark(File);

impl RevisionMark {
    pub(super) fn open(dir: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Self(options.mode(0o600).open(dir.join(NAME))?))
    }

    /// The revision that was noted last; none when there is none, or half of
    /// one.
    pub(super) fn read(&self) -> Option<Revision> {
        let mut bytes = [0; 16];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let (revision, check) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        let (revision, check) = (number(revision)?, number(check)?);
        (check == !revision).then_some(revision)
    }

    /// Notes a revision. One that is not noted is not missed until the file
    /// loses something.
    pub(super) fn note(&self, revision: Revision) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&revision.to_be_bytes());
        bytes[8..].copy_from_slice(&(!revision).to_be_bytes());
        if let Err(error) = self.0.write_all_at(&bytes, 0) {
            tracing::warn!(%error, revision, "store revision not saved");
        }
    }
}
