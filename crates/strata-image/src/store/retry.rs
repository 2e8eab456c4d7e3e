//! When to retry a source. Pure: what happened goes in, how long to wait comes
//! out.

use std::time::Duration;

use super::StoreOptions;
use crate::SourceError;
use crate::source::RetryAfter;

/// An attempt that brought this much was worth it.
const PROGRESS: u64 = 64 << 10;
/// However much each one brings: no blob is pulled in more pieces.
const MAX_TOTAL: u32 = 1000;

#[derive(Debug)]
pub(super) struct Retries {
    attempts: u32,
    first: Duration,
    longest: Duration,
    fruitless: u32,
    total: u32,
}

impl Retries {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            attempts: options.attempts.max(1),
            first: options.first_wait,
            longest: options.longest_wait,
            fruitless: 0,
            total: 0,
        }
    }

    /// How long to wait before the next attempt; none when there is no use.
    /// `gained` is what the failed one brought.
    pub(super) fn after(&mut self, error: &SourceError, gained: u64) -> Option<Duration> {
        self.total += 1;
        self.fruitless = if gained >= PROGRESS {
            1
        } else {
            self.fruitless + 1
        };
        if self.fruitless >= self.attempts || self.total >= MAX_TOTAL {
            return None;
        }
        let doubled = self.first * 2_u32.saturating_pow(self.fruitless - 1);
        match error.again() {
            RetryAfter::Never => None,
            RetryAfter::Soon => Some(doubled.min(self.longest)),
            RetryAfter::After(wait) if wait > self.longest => None,
            RetryAfter::After(wait) => Some(wait.max(self.first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> SourceError {
        SourceError::Status {
            host: "r".into(),
            status,
            detail: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn retries() -> Retries {
        Retries::new(&StoreOptions {
            attempts: 4,
            ..StoreOptions::default()
        })
    }

    #[test]
    fn waits_double_and_end() {
        let mut retries = retries();
        let error = status(500, None);
        let waits: Vec<_> = (0..4).map(|_| retries.after(&error, 0)).collect();
        let millis = |n| Some(Duration::from_millis(n));
        assert_eq!(waits, [millis(250), millis(500), millis(1000), None]);
    }

    #[test]
    fn the_registry_says_how_long_but_not_for_ever() {
        let wait = |error| retries().after(&error, 0);
        assert_eq!(wait(status(429, Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(wait(status(429, Some(3600))), None);
        assert_eq!(wait(status(400, None)), None);
        assert_eq!(wait(SourceError::NotFound("x".into())), None);
    }

    #[test]
    fn progress_starts_the_count_again() {
        let mut retries = retries();
        let error = status(503, None);
        for _ in 0..20 {
            assert_eq!(
                retries.after(&error, 1 << 20),
                Some(Duration::from_millis(250))
            );
        }
    }
}
