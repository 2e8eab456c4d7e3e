//! A token bucket that may be overdrawn: what is taken is known only after it
//! was sent, so a caller goes into debt and waits until it is paid.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Bucket {
    rate: f64,
    burst: f64,
    level: f64,
    at: Instant,
}

#[allow(
    clippy::cast_precision_loss,
    reason = "rates and bursts are far below 2^52"
)]
impl Bucket {
    /// Filled to the brim. A rate of 0 means no bound.
    pub(super) fn full(rate: u64, burst: u64) -> Self {
        let burst = burst.max(1) as f64;
        Self {
            rate: rate as f64,
            burst,
            level: burst,
            at: Instant::now(),
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.rate).min(self.burst);
        self.at = self.at.max(now);
    }

    /// Takes this many if they are there; else returns how long until they are.
    pub(super) fn take(&mut self, now: Instant, many: u64) -> Result<(), Duration> {
        if self.rate == 0.0 {
            return Ok(());
        }
        self.refill(now);
        let many = many as f64;
        if self.level < many {
            return Err(Duration::from_secs_f64((many - self.level) / self.rate));
        }
        self.level -= many;
        Ok(())
    }

    /// Takes one in advance, if it is there within this time; returns when it is.
    pub(super) fn reserve(&mut self, now: Instant, most: Duration) -> Result<Duration, Duration> {
        if self.rate == 0.0 {
            return Ok(Duration::ZERO);
        }
        self.refill(now);
        let wait = Duration::from_secs_f64(((1.0 - self.level) / self.rate).max(0.0));
        if wait > most {
            return Err(wait);
        }
        self.level -= 1.0;
        Ok(wait)
    }

    /// Takes this many, whether they are there or not.
    pub(super) fn charge(&mut self, now: Instant, many: u64) {
        if self.rate > 0.0 {
            self.refill(now);
            self.level -= many as f64;
        }
    }

    /// How long until what was taken too much is paid.
    pub(super) fn debt(&mut self, now: Instant) -> Duration {
        if self.rate == 0.0 {
            return Duration::ZERO;
        }
        self.refill(now);
        Duration::from_secs_f64((-self.level / self.rate).max(0.0))
    }

    pub(super) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.level >= self.burst
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn burst_is_there_after_a_rest_and_the_rate_from_then_on() {
        let mut bucket = Bucket::full(10, 20);
        let begin = Instant::now();
        let taken = (0..100).filter(|_| bucket.take(begin, 1).is_ok()).count();
        assert_eq!(taken, 20);
        let wait = bucket.take(begin, 1).unwrap_err();
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        let later = begin + Duration::from_secs(1);
        let taken = (0..100).filter(|_| bucket.take(later, 1).is_ok()).count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn debt_is_paid_at_the_rate() {
        let mut bucket = Bucket::full(10, 20);
        let begin = Instant::now();
        bucket.charge(begin, 50);
        assert_eq!(bucket.debt(begin), Duration::from_secs(3));
        assert!(bucket.take(begin + Duration::from_secs(2), 1).is_err());
        assert!(bucket.take(begin + Duration::from_secs(4), 1).is_ok());
    }

    #[test]
    fn reserved_ones_queue_up_to_the_longest_wait() {
        let mut bucket = Bucket::full(10, 5);
        let begin = Instant::now();
        let most = Duration::from_millis(301);
        let waits: Vec<_> = (0..20)
            .map_while(|_| bucket.reserve(begin, most).ok())
            .collect();
        let millis: Vec<_> = waits.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [0, 0, 0, 0, 0, 100, 200, 300]);
        assert!(bucket.reserve(begin, most).is_err());
        let later = begin + Duration::from_millis(100);
        assert!(bucket.reserve(later, most).is_ok());
        assert!(bucket.reserve(later, most).is_err());
    }

    #[test]
    fn rate_of_zero_is_no_bound() {
        let mut bucket = Bucket::full(0, 0);
        let now = Instant::now();
        bucket.charge(now, 1 << 40);
        assert!(bucket.take(now, 1 << 40).is_ok());
        assert_eq!(bucket.debt(now), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_allow(
            rate in 1u64..100, burst in 1u64..100,
            pauses in proptest::collection::vec(0u64..500, 1..200),
        ) {
            let mut bucket = Bucket::full(rate, burst);
            let (begin, mut now, mut taken) = (Instant::now(), Instant::now(), 0u64);
            for pause in pauses {
                now += Duration::from_millis(pause);
                taken += u64::from(bucket.take(now, 1).is_ok());
            }
            let passed = now.duration_since(begin).as_millis();
            let most = burst + rate * (u64::try_from(passed).unwrap() + 1) / 1000 + 1;
            prop_assert!(taken <= most, "{taken} of {most}");
        }
    }
}
