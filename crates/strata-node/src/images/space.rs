//! Room for images: when the file system fills up, unused ones go.

use std::path::Path;

use strata_image::PruneGoal;

use super::{Images, Inner};
use std::sync::Arc;

/// What a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) used: u64,
    /// For all users but root.
    pub(super) available: u64,
}

impl DiskSpace {
    pub(super) fn of(dir: &Path) -> std::io::Result<Self> {
        let found = rustix::fs::statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Self {
            used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
            available: bytes(found.f_bavail),
        })
    }

    /// How much must go: nothing up to `high` percent, and else enough to
    /// come down to `low`.
    fn excess(self, high: u8, low: u8) -> u64 {
        let total = u128::from(self.used) + u128::from(self.available);
        let percent = |percent: u8| total * u128::from(percent) / 100;
        if u128::from(self.used) <= percent(high) {
            return 0;
        }
        let excess = u128::from(self.used).saturating_sub(percent(low));
        u64::try_from(excess).unwrap_or(u64::MAX)
    }
}

/// Prunes when the disk is too full. A caller that needs room goes on without
/// it: the next write fails if there is none.
pub(super) async fn make_room(images: &Arc<Inner>) {
    let Ok(_one) = images.making_room.try_lock() else {
        return;
    };
    let (high, low) = (images.config.high_water, images.config.low_water);
    let excess = match DiskSpace::of(&images.dir) {
        Ok(space) => space.excess(high, low),
        Err(error) => {
            tracing::warn!(%error, "free space of the image store unknown");
            return;
        }
    };
    if excess == 0 {
        return;
    }
    match Images(Arc::clone(images))
        .prune_to(PruneGoal::Free(excess))
        .await
    {
        Ok(pruned) if pruned.bytes > 0 => tracing::info!(
            bytes = pruned.bytes,
            images = pruned.images.len(),
            "the disk is over {high} % full, removed unused images"
        ),
        Ok(_) => tracing::warn!(
            excess,
            "the disk is over {high} % full, and there is no unused image to remove"
        ),
        Err(error) => tracing::warn!(%error, "image garbage collection failed"),
    }
}

/// Removes unused images of a project whose share of the disk is taken, and of
/// others that are over theirs; whether it freed anything.
pub(super) async fn trim_share(images: &Arc<Inner>, project: &str, percent: u8) -> bool {
    let _one = images.making_room.lock().await;
    match Images(Arc::clone(images))
        .prune_share(project, percent)
        .await
    {
        Ok(pruned) => {
            tracing::info!(
                project,
                bytes = pruned.bytes,
                images = pruned.images.len(),
                "the images of the project take their share of the disk, removed unused ones"
            );
            true
        }
        Err(error) => {
            tracing::warn!(project, %error, "image garbage collection failed");
            false
        }
    }
}

/// Removes what a pull left that the disk has no room for.
pub(super) async fn remove_garbage(images: &Arc<Inner>) {
    let images = Images(Arc::clone(images));
    if let Err(error) = images.prune_to(PruneGoal::Garbage).await {
        tracing::warn!(%error, "remains of a failed pull not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_marks_nothing_goes() {
        let excess = |used, available| DiskSpace { used, available }.excess(85, 80);
        assert_eq!(excess(0, 100), 0);
        assert_eq!(excess(85, 15), 0);
        assert_eq!(excess(86, 14), 6);
        assert_eq!(excess(100, 0), 20);
        assert_eq!(excess(0, 0), 0);
        assert_eq!(excess(u64::MAX, u64::MAX), 0);
        assert!(excess(u64::MAX, 0) > 1 << 60);
    }
}
