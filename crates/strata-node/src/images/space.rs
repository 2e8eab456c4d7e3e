//! Room for images: when the file system fills up, unused ones go.

use std::path::Path;

use strata_image::PruneGoal;

use super::{Images, Inner};
use std::sync::Arc;

/// What a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) used: u64,
    /// For everybody but root.
    pub(super) available: u64,
}

impl Space {
    pub(super) fn of(folder: &Path) -> std::io::Result<Self> {
        let found = rustix::fs::statvfs(folder)?;
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

/// Prunes when the disk is too full. Whoever wanted room goes on without:
/// what follows tells soon enough that there is none.
pub(super) async fn make_room(images: &Arc<Inner>) {
    let Ok(_one) = images.making_room.try_lock() else {
        return;
    };
    let (high, low) = (images.config.high_water, images.config.low_water);
    let excess = match Space::of(&images.folder) {
        Ok(space) => space.excess(high, low),
        Err(error) => {
            tracing::warn!(%error, "cannot tell how full the disk of the images is");
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
        Err(error) => tracing::warn!(%error, "cannot make room for images"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_marks_nothing_goes() {
        let excess = |used, available| Space { used, available }.excess(85, 80);
        assert_eq!(excess(0, 100), 0);
        assert_eq!(excess(85, 15), 0);
        assert_eq!(excess(86, 14), 6);
        assert_eq!(excess(100, 0), 20);
        assert_eq!(excess(0, 0), 0);
        assert_eq!(excess(u64::MAX, u64::MAX), 0);
        assert!(excess(u64::MAX, 0) > 1 << 60);
    }
}
