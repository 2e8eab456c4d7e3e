//! How fast bytes may go to the repository: a bucket that fills at the
//! allowed rate and holds half a second's worth.
//!
//! The bucket may be overdrawn: a caller that takes more than is there waits
//! until it would be there. So a pack is never cut, and the average holds.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::error::{BackupError, Result};

/// How much may accumulate while nothing is written.
const BURST: Duration = Duration::from_millis(500);
/// How long a wait lasts before it checks whether it is cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The account of one bucket: pure, the time is passed in.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    /// When all that was taken will have been earned.
    paid_at: Instant,
}

impl Bucket {
    /// Takes so much, and returns how long to wait first.
    fn take(&mut self, now: Instant, amount: usize) -> Duration {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let from = self.paid_at.max(earliest);
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let cost = Duration::from_secs_f64(amount as f64 / self.rate as f64);
        self.paid_at = from + cost;
        self.paid_at.saturating_duration_since(now)
    }
}

/// The pace of one backup.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    bucket: Option<Mutex<Bucket>>,
    cancel: CancellationToken,
}

impl RateLimiter {
    /// At most so many bytes a second; as fast as it goes without.
    pub(crate) fn new(bytes_per_second: Option<u64>, cancel: CancellationToken) -> Self {
        let bucket = bytes_per_second.map(|rate| {
            Mutex::new(Bucket {
                rate: rate.max(1),
                paid_at: Instant::now(),
            })
        });
        Self { bucket, cancel }
    }

    pub(crate) fn free() -> Self {
        Self::new(None, CancellationToken::new())
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.bucket.is_some()
    }

    /// Waits until so many bytes may go.
    pub(crate) fn take(&self, amount: usize) -> Result<()> {
        let Some(bucket) = &self.bucket else {
            return Ok(());
        };
        let now = Instant::now();
        let wait = bucket
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take(now, amount);
        let until = now + wait;
        loop {
            if self.cancel.is_cancelled() {
                return Err(BackupError::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_holds_whatever_the_pieces_are() {
        let start = Instant::now();
        let mut bucket = Bucket {
            rate: 1000,
            paid_at: start,
        };
        let mut now = start;
        let mut sent = 0_u64;
        for amount in [1, 10_000, 5, 700, 1, 1, 90_000] {
            now += bucket.take(now, amount);
            sent += amount as u64;
        }
        let earned = (now - start).as_secs_f64() * 1000.0;
        assert!((earned - sent as f64).abs() < 1.0, "{earned} for {sent}");
    }

    #[test]
    fn a_long_rest_does_not_allow_a_long_rush() {
        let start = Instant::now();
        let mut bucket = Bucket {
            rate: 1000,
            paid_at: start,
        };
        let later = start + Duration::from_secs(3600);
        assert_eq!(bucket.take(later, 500), Duration::ZERO);
        assert!(bucket.take(later, 1000) >= Duration::from_millis(999));
    }

    #[test]
    fn a_wait_ends_when_it_is_cancelled() {
        let cancel = CancellationToken::new();
        let pace = RateLimiter::new(Some(1), cancel.clone());
        cancel.cancel();
        assert!(matches!(pace.take(1 << 30), Err(BackupError::Cancelled)));
    }
}
