//! How many instances are moved off lost nodes, all nodes together: a burst at
//! once, then a steady rate. Every move pulls an image, writes records and uses
//! what other nodes have left; without a bound the loss of a few large nodes
//! would strike all others at the same moment.

use std::time::Duration;

use tokio::time::Instant;

/// So many are moved at once.
const BURST: usize = 50;
/// After that, one in this time.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is left to be moved now.
#[derive(Debug)]
pub(super) struct MoveBudget {
    left: usize,
    /// Up to when moves were added.
    counted: Option<Instant>,
}

impl Default for MoveBudget {
    fn default() -> Self {
        Self {
            left: BURST,
            counted: None,
        }
    }
}

impl MoveBudget {
    /// How many may be moved now.
    pub(super) fn left(&mut self, now: Instant) -> usize {
        let counted = *self.counted.get_or_insert(now);
        let passed = now.saturating_duration_since(counted);
        let more = passed.as_millis() / INTERVAL.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.counted = Some(counted + INTERVAL.saturating_mul(more));
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        self.left = self.left.saturating_add(more).min(BURST);
        self.left
    }

    /// So many were moved.
    pub(super) fn spend(&mut self, moves: usize) {
        self.left = self.left.saturating_sub(moves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_moved_at_once_and_the_rest_at_a_steady_rate() {
        let (begin, mut budget) = (Instant::now(), MoveBudget::default());
        assert_eq!(budget.left(begin), BURST);
        budget.spend(BURST);
        assert_eq!(budget.left(begin), 0);
        let mut moved = 0;
        for round in 1..=40 {
            let left = budget.left(begin + Duration::from_millis(250) * round);
            moved += left;
            budget.spend(left);
        }
        assert_eq!(moved, 100, "ten in each of ten seconds");
        let later = begin + Duration::from_secs(3600);
        assert_eq!(
            budget.left(later),
            BURST,
            "no more than a burst is saved up"
        );
    }
}
