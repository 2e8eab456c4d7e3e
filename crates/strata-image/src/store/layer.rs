//! One layer: downloaded if need be, unpacked, put into its place.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::flight::Work;
use super::progress::{Phase, Reporter};
use super::{Inner, StoreError, unsynced};
use crate::manifest::Descriptor;
use crate::{Digest, Source, unpack};

/// Breaks off the work on a blocking thread when the task that waits for it
/// is dropped.
struct BreakOff(Arc<AtomicBool>);

impl Drop for BreakOff {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    /// Makes the layer be there. One that is needs no download from a source
    /// that has shown that it has the blob, which must be known to unpack to
    /// the layer.
    pub(super) async fn make_layer(
        self: &Arc<Self>,
        source: &dyn Source,
        blob: &Descriptor,
        diff_id: Digest,
        reporter: &Reporter,
    ) -> Result<(), StoreError> {
        let turn = self.flights.turn(Work::Layer(diff_id)).await;
        let exists = self.paths.layer_root(&diff_id).exists();
        let known = exists && self.provenance.unpacks_to(blob.digest, diff_id);
        if known {
            let _permit = self.downloads.acquire().await;
            self.show(source, blob).await?;
        } else {
            {
                // Never closed, so there is always a permit to wait for.
                let _permit = self.downloads.acquire().await;
                self.fetch(source, blob, reporter).await?;
            }
            let permit = Arc::clone(&self.unpacks).acquire_owned().await;
            let broken_off = Arc::new(AtomicBool::new(false));
            let _guard = BreakOff(Arc::clone(&broken_off));
            let digest = blob.digest;
            let (store, blob, told) = (Arc::clone(self), blob.clone(), reporter.clone());
            tokio::task::spawn_blocking(move || {
                let _held = (turn, permit);
                store.unpack_layer(&blob, diff_id, &told, &broken_off)
            })
            .await??;
            self.provenance.note_unpacked(digest, diff_id);
        }
        let phase = if exists { Phase::Exists } else { Phase::Done };
        reporter.layer(blob.digest, phase, blob.size);
        Ok(())
    }

    fn unpack_layer(
        &self,
        blob: &Descriptor,
        diff_id: Digest,
        reporter: &Reporter,
        broken_off: &AtomicBool,
    ) -> Result<(), StoreError> {
        let tmp = self.paths.new_tmp();
        let made = self.unpack_into(&tmp, blob, diff_id, reporter, broken_off);
        let placed = made.and_then(|()| {
            let path = self.paths.layer(&diff_id);
            // It was unpacked from another blob: this one is now known to be
            // the same.
            if path.exists() {
                return unsynced::remove(&tmp).map_err(StoreError::io("remove", &tmp));
            }
            self.note_unsynced(Work::Layer(diff_id))
                .and_then(|()| fs::rename(&tmp, &path))
                .map_err(StoreError::io("keep", &path))
        });
        if placed.is_err()
            && let Err(error) = unsynced::remove(&tmp)
        {
            tracing::warn!(folder = %tmp.display(), %error, "cannot remove a half made layer");
        }
        placed
    }

    fn unpack_into(
        &self,
        tmp: &Path,
        blob: &Descriptor,
        diff_id: Digest,
        reporter: &Reporter,
        broken_off: &AtomicBool,
    ) -> Result<(), StoreError> {
        let path = self.paths.blob(&blob.digest);
        let packed = File::open(&path).map_err(StoreError::io("read", &path))?;
        fs::create_dir(tmp).map_err(StoreError::io("make the folder", tmp))?;
        let watch = |done| {
            reporter.layer(blob.digest, Phase::Unpacking, done);
            if broken_off.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let limits = &self.options.limits;
        let unpacked =
            unpack(packed, &tmp.join("root"), diff_id, limits, &watch).map_err(|source| {
                StoreError::Unpack {
                    digest: blob.digest,
                    source,
                }
            })?;
        let size = tmp.join("size");
        fs::write(&size, unpacked.bytes.to_string()).map_err(StoreError::io("write", &size))
    }

    /// How large an unpacked layer is.
    pub(super) fn layer_size(&self, diff_id: &Digest) -> io::Result<u64> {
        let text = fs::read_to_string(self.paths.layer_size(diff_id))?;
        text.parse().map_err(io::Error::other)
    }
}
