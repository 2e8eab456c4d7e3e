//! A point in time from which time passes also while the host is suspended. The
//! clock of `Instant` stands still meanwhile; the lease of a leader in etcd does
//! not, so a server that resumes must not take the pause for no time at all.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// When something was, by the clock of `Instant` and by how long the host had
/// been suspended until then.
#[derive(Clone, Copy, Debug)]
pub struct BootInstant {
    at: Instant,
    suspended_ns: i64,
}

impl BootInstant {
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            suspended_ns: suspended_ns(),
        }
    }

    /// How much time has passed since, with the time that the host was
    /// suspended.
    pub fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    fn until(self, later: Self) -> Duration {
        let suspended = later.suspended_ns.saturating_sub(self.suspended_ns);
        let suspended = Duration::from_nanos(u64::try_from(suspended).unwrap_or(0));
        later.at.saturating_duration_since(self.at) + suspended
    }
}

/// How long the host was suspended since it started: what the one clock counts
/// and the other does not. In a time namespace it may be negative. A process
/// that is interrupted between the two calls takes that for a suspension, never
/// the reverse.
fn suspended_ns() -> i64 {
    let read = |clock| {
        let time = Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
    };
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

#[cfg(test)]
impl BootInstant {
    /// The same point in time of a host that was suspended for so long since.
    pub(crate) fn before_suspension(self, suspended: Duration) -> Self {
        let suspended = i64::try_from(suspended.as_nanos()).unwrap();
        Self {
            suspended_ns: self.suspended_ns - suspended,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn suspension_of_the_host_counts_as_time() {
        let begin = BootInstant::now();
        let hour = Duration::from_secs(3600);
        tokio::time::sleep(hour).await;
        let minute = Duration::from_secs(60);
        assert!((hour..hour + minute).contains(&begin.elapsed()));
        let before = begin.before_suspension(hour);
        let elapsed = before.elapsed();
        assert!((2 * hour - minute..2 * hour + minute).contains(&elapsed));
        assert_eq!(begin.until(before), Duration::from_nanos(0));
    }
}
