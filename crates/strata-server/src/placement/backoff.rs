//! When instances are tried again that every node refused: each time later, and
//! not all at the same moment. Without it one instance whose port is taken
//! everywhere would be placed and refused twice a second without end.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use strata_types::instance::InstanceId;
use tokio::time::Instant;

const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// The backoff of each instance that was refused.
#[derive(Default)]
pub(super) struct Backoffs {
    each: HashMap<InstanceId, Backoff>,
    spread: RandomState,
}

struct Backoff {
    failures: u32,
    until: Instant,
}

impl Backoffs {
    /// Every node refused it, once more.
    pub(super) fn failed(&mut self, id: &InstanceId, now: Instant) {
        let known = self.each.entry(id.clone());
        let backoff = known.or_insert(Backoff {
            failures: 0,
            until: now,
        });
        let doubled = INITIAL_BACKOFF.saturating_mul(1 << backoff.failures.min(16));
        let longest = doubled.min(MAX_BACKOFF);
        backoff.failures += 1;
        // Three quarters to the whole of it.
        let chance = self.spread.hash_one((id, backoff.failures)) % 1000;
        let part = u32::try_from(chance).unwrap_or(0);
        backoff.until = now + longest * 3 / 4 + longest * part / 4000;
    }

    /// When it is tried again; none for one that was not refused.
    pub(super) fn until(&self, id: &InstanceId) -> Option<Instant> {
        self.each.get(id).map(|backoff| backoff.until)
    }

    pub(super) fn remove(&mut self, id: &InstanceId) {
        self.each.remove(id);
    }

    pub(super) fn clear(&mut self) {
        self.each.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_bound_and_begins_again_when_removed() {
        let (id, now) = ("web".parse().unwrap(), Instant::now());
        let mut backoffs = Backoffs::default();
        assert_eq!(backoffs.until(&id), None);
        let mut next = || {
            backoffs.failed(&id, now);
            backoffs.until(&id).unwrap().duration_since(now)
        };
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let (wait, longest) = (next(), Duration::from_secs(seconds));
            assert!(wait <= longest && wait >= longest * 3 / 4, "{wait:?}");
        }
        backoffs.remove(&id);
        backoffs.failed(&id, now);
        assert!(backoffs.until(&id).unwrap() <= now + INITIAL_BACKOFF);
    }
}
