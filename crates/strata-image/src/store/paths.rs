//! Where everything lies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, Reference};

#[derive(Debug)]
pub(super) struct Paths {
    root: PathBuf,
    made: AtomicU64,
}

impl Paths {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            made: AtomicU64::new(0),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    pub(super) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub(super) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(super) fn partials(&self) -> PathBuf {
        self.root.join("partial")
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn unsynced(&self) -> PathBuf {
        self.root.join("unsynced")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub(super) fn partial(&self, digest: &Digest) -> PathBuf {
        self.partials().join(digest.hex())
    }

    pub(super) fn layer(&self, diff_id: &Digest) -> PathBuf {
        self.layers().join(diff_id.hex())
    }

    /// The directory that an overlay takes as a lower.
    pub(super) fn layer_root(&self, diff_id: &Digest) -> PathBuf {
        self.layer(diff_id).join("root")
    }

    pub(super) fn layer_size(&self, diff_id: &Digest) -> PathBuf {
        self.layer(diff_id).join("size")
    }

    pub(super) fn layer_entries(&self, diff_id: &Digest) -> PathBuf {
        self.layer(diff_id).join("entries")
    }

    /// A name may hold slashes and be long; its digest is neither.
    pub(super) fn image(&self, reference: &Reference) -> PathBuf {
        let key = Digest::of(reference.to_string().as_bytes()).hex();
        self.images().join(format!("{key}.json"))
    }

    /// A path in `tmp` that no other task has.
    pub(super) fn new_tmp(&self) -> PathBuf {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.tmp().join(number.to_string())
    }
}
