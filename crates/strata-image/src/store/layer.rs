//! One layer: downloaded if need be, unpacked, put into its place.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::Budget;
use super::flight::WorkItem;
use super::progress::{Phase, Reporter};
use super::{Inner, StoreError, unsynced};
use crate::manifest::Descriptor;
use crate::unpack::{Charge, unpack_charged};
use crate::{Digest, Source};

/// Breaks off the work on a blocking thread when the task that waits for it
/// is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    /// Makes the layer be there. One that is needs no download from a source
    /// that has shown that it has the blob, which must be known to unpack to
    /// the layer.
    ///
    /// The layer is not locked during the download: any manifest can name it,
    /// also one whose registry never sends it.
    pub(super) async fn make_layer(
        self: &Arc<Self>,
        source: &dyn Source,
        blob: &Descriptor,
        diff_id: Digest,
        (holder, budget): (&str, &Arc<Budget>),
        reporter: &Reporter,
    ) -> Result<(), StoreError> {
        {
            let _share = self.downloads.take(holder).await;
            match self.is_known(blob, diff_id) {
                true => self.show(source, blob).await?,
                false => self.fetch(source, blob, reporter).await?,
            }
        }
        let turn = self.flights.turn(WorkItem::Layer(diff_id)).await;
        let exists = self.paths.layer_root(&diff_id).exists();
        if self.is_known(blob, diff_id) {
            let size = self.layer_size(&diff_id).unwrap_or(0);
            let counted = budget.reuse(&diff_id, size, self.layer_amount(&diff_id));
            counted.map_err(|source| StoreError::Unpack {
                digest: blob.digest,
                source,
            })?;
        } else {
            let permit = Arc::clone(&self.unpacks).acquire_owned().await;
            let broken_off = Arc::new(AtomicBool::new(false));
            let _guard = CancelOnDrop(Arc::clone(&broken_off));
            let digest = blob.digest;
            let (store, blob, told) = (Arc::clone(self), blob.clone(), reporter.clone());
            let budget = Arc::clone(budget);
            tokio::task::spawn_blocking(move || {
                let _held = (turn, permit);
                store.unpack_layer(&blob, diff_id, &budget, &told, &broken_off)
            })
            .await??;
            self.provenance.note_unpacked(digest, diff_id);
        }
        let phase = if exists { Phase::Exists } else { Phase::Done };
        reporter.layer(blob.digest, phase, blob.size);
        Ok(())
    }

    /// Whether the layer is there, and is what this blob unpacks to.
    fn is_known(&self, blob: &Descriptor, diff_id: Digest) -> bool {
        self.paths.layer_root(&diff_id).exists() && self.provenance.unpacks_to(blob.digest, diff_id)
    }

    fn unpack_layer(
        &self,
        blob: &Descriptor,
        diff_id: Digest,
        budget: &Budget,
        reporter: &Reporter,
        broken_off: &AtomicBool,
    ) -> Result<(), StoreError> {
        let tmp = self.paths.new_tmp();
        let watch = |done| {
            reporter.layer(blob.digest, Phase::Unpacking, done);
            if broken_off.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let made = self.unpack_into(&tmp, blob, diff_id, budget, &watch);
        let placed = made.and_then(|()| {
            let path = self.paths.layer(&diff_id);
            // It was unpacked from another blob: this one is now known to be
            // the same.
            if path.exists() {
                return unsynced::remove(&tmp).map_err(StoreError::io("remove", &tmp));
            }
            self.note_unsynced(WorkItem::Layer(diff_id))
                .and_then(|()| fs::rename(&tmp, &path))
                .map_err(StoreError::io("keep", &path))
        });
        if placed.is_err()
            && let Err(error) = unsynced::remove(&tmp)
        {
            tracing::warn!(dir = %tmp.display(), %error, "incomplete layer not removed");
        }
        placed
    }

    fn unpack_into(
        &self,
        tmp: &Path,
        blob: &Descriptor,
        diff_id: Digest,
        budget: &Budget,
        watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Result<(), StoreError> {
        let path = self.paths.blob(&blob.digest);
        let packed = File::open(&path).map_err(StoreError::io("read", &path))?;
        fs::create_dir(tmp).map_err(StoreError::io("make the directory", tmp))?;
        let charge = |charge| match charge {
            Charge::Bytes(bytes) => budget.charge(bytes),
            Charge::Entry => budget.charge_entry(),
        };
        let limits = (&self.options.limits, &charge as _);
        let unpacked = unpack_charged(packed, &tmp.join("root"), diff_id, limits, watch);
        let unpacked = unpacked.map_err(|source| StoreError::Unpack {
            digest: blob.digest,
            source,
        })?;
        for (name, number) in [("size", unpacked.bytes), ("entries", unpacked.entries)] {
            let path = tmp.join(name);
            fs::write(&path, number.to_string()).map_err(StoreError::io("write", &path))?;
        }
        Ok(())
    }

    /// Of how many entries an unpacked layer was; 0 for one of an older
    /// release.
    pub(super) fn layer_entries(&self, diff_id: &Digest) -> u64 {
        let text = fs::read_to_string(self.paths.layer_entries(diff_id));
        text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// How large an unpacked layer is.
    pub(super) fn layer_size(&self, diff_id: &Digest) -> io::Result<u64> {
        let text = fs::read_to_string(self.paths.layer_size(diff_id))?;
        text.parse().map_err(io::Error::other)
    }
}
