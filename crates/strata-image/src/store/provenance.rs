//! Which repositories have shown that they have a blob, and what blobs unpack
//! to.
//!
//! Content is shared by digest, and a digest is no secret: a manifest can name
//! a layer that its own repository does not have, and so borrow one that
//! another user pulled from a private repository. So what is here is used for
//! an image only if the image's source has it too:
//!
//! - A repository that sent the blob, all of it, has it.
//! - Another repository of the same registry only has to be queried: a registry
//!   that sent it before has the bytes, and knows which user may read what.
//! - From any other source it is read again, to the last byte. An answer that
//!   it is there proves nothing: the server that names a foreign blob also
//!   gives the answer.
//!
//! And since the configuration of an image names what its layers unpack to, a
//! layer that is unpacked already is used for a blob only if that blob was seen
//! to unpack to it.
//!
//! All of this is known from the images that are here, and kept in memory for
//! what was pulled since.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::manifest::{ImageConfig, Manifest};
use crate::{Digest, Origin};

/// More than a node ever has. Beyond, all is dropped and proven again.
const MAX_BLOBS: usize = 1 << 17;
/// Repositories that one blob is known of. Beyond, they show it again.
const MAX_SENDERS: usize = 256;

/// What is known of a blob and a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobProvenance {
    /// This repository sent it.
    ByRepository,
    /// Another repository of this registry did.
    ByRegistry,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Provenance(Mutex<KnownBlob>);

#[derive(Debug, Default)]
struct KnownBlob {
    senders: HashMap<Digest, BTreeSet<Origin>>,
    /// A blob and what it unpacks to.
    unpacked: HashSet<(Digest, Digest)>,
}

impl Provenance {
    fn guard(&self) -> MutexGuard<'_, KnownBlob> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an image that is here, whole.
    pub(super) fn note_image(
        &self,
        origin: Option<&Origin>,
        manifest: &Manifest,
        config: &ImageConfig,
    ) {
        for (layer, diff_id) in manifest.layers.iter().zip(&config.rootfs.diff_ids) {
            self.note_unpacked(layer.digest, *diff_id);
            self.note_sent(origin, layer.digest);
        }
        self.note_sent(origin, manifest.config.digest);
    }

    /// A source sent a blob, which matched its digest. One without a name is
    /// not remembered: it may hold something else the next time.
    pub(super) fn note_sent(&self, origin: Option<&Origin>, blob: Digest) {
        let Some(origin) = origin else { return };
        let mut known = self.guard();
        if known.senders.len() >= MAX_BLOBS {
            known.senders.clear();
        }
        let senders = known.senders.entry(blob).or_default();
        if senders.len() >= MAX_SENDERS {
            senders.clear();
        }
        senders.insert(origin.clone());
    }

    /// A blob was unpacked, and its content matched this digest.
    pub(super) fn note_unpacked(&self, blob: Digest, diff_id: Digest) {
        let mut known = self.guard();
        if known.unpacked.len() >= MAX_BLOBS {
            known.unpacked.clear();
        }
        known.unpacked.insert((blob, diff_id));
    }

    pub(super) fn shown(&self, origin: Option<&Origin>, blob: &Digest) -> BlobProvenance {
        let known = self.guard();
        let (Some(origin), Some(senders)) = (origin, known.senders.get(blob)) else {
            return BlobProvenance::Nothing;
        };
        match senders.contains(origin) {
            true => BlobProvenance::ByRepository,
            false if senders.iter().any(|one| one.host == origin.host) => {
                BlobProvenance::ByRegistry
            }
            false => BlobProvenance::Nothing,
        }
    }

    pub(super) fn unpacks_to(&self, blob: Digest, diff_id: Digest) -> bool {
        self.guard().unpacked.contains(&(blob, diff_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(host: &str, repository: &str) -> Origin {
        Origin {
            host: host.into(),
            repository: repository.into(),
        }
    }

    #[test]
    fn provenance_distinguishes_repository_registry_and_other_sources() {
        let known = Provenance::default();
        let (blob, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let sender = origin("r.example", "team/app");
        known.note_sent(Some(&sender), blob);
        known.note_sent(None, other);
        let shown = |host, repository, blob| known.shown(Some(&origin(host, repository)), blob);
        assert_eq!(
            shown("r.example", "team/app", &blob),
            BlobProvenance::ByRepository
        );
        assert_eq!(
            shown("r.example", "mine/app", &blob),
            BlobProvenance::ByRegistry
        );
        assert_eq!(
            shown("r.example:5000", "team/app", &blob),
            BlobProvenance::Nothing
        );
        assert_eq!(
            shown("r.example", "team/app", &other),
            BlobProvenance::Nothing
        );
        assert_eq!(known.shown(None, &blob), BlobProvenance::Nothing);
    }

    #[test]
    fn layer_digest_of_a_blob_is_known_to_both_sources() {
        let known = Provenance::default();
        let (blob, layer, other) = (Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c"));
        known.note_unpacked(blob, layer);
        assert!(known.unpacks_to(blob, layer));
        assert!(!known.unpacks_to(other, layer) && !known.unpacks_to(blob, other));
    }
}
