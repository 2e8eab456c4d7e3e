//! What happens when something that runs ends, and how long it waits before
//! it is tried again. One piece for all that is started again: pods, virtual
//! machines, executables of cells.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Ending;

/// Restart policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// It is started again unless it exited with 0.
    #[default]
    #[serde(alias = "on_failure")]
    OnFailure,
    /// It is started again.
    Always,
    /// It stays as it is.
    Never,
}

impl RestartPolicy {
    /// Whether one that ended so is started again.
    pub fn wants_restart(self, ending: Ending) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::OnFailure => ending != Ending::Code(0),
        }
    }
}

impl fmt::Display for RestartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OnFailure => "on-failure",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

/// How patient the tries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The first wait, doubled with each further one.
    pub first: Duration,
    /// No wait is longer.
    pub longest: Duration,
    /// After a run of this length the waits begin again.
    pub good: Duration,
}

impl BackoffPolicy {
    /// For pods and virtual machines: a try costs an address, mounts, an
    /// image, so 1 s up to 5 minutes, from 1 s again after 10 good minutes.
    pub const UNITS: Self = Self {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(300),
        good: Duration::from_secs(600),
    };
    /// For executables of cells: a try costs a process, and others of the
    /// machine wait for it, so 100 ms up to 30 s, from 100 ms again after a
    /// good minute.
    pub const EXECUTABLES: Self = Self {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(30),
        good: Duration::from_secs(60),
    };
}

/// How long to wait before the next try, by how often it was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Takes in an end after so long a run; answers how long to wait.
    pub fn after_run(&mut self, pace: BackoffPolicy, lived: Duration) -> Duration {
        if lived >= pace.good {
            self.tries = 0;
        }
        let doubled = 1u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        self.tries = self.tries.saturating_add(1);
        pace.first.saturating_mul(doubled).min(pace.longest)
    }

    /// How often it was tried again without a good run between.
    pub fn tries(self) -> u32 {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn backoff_doubles_up_to_five_minutes_and_resets_after_a_good_run() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..11)
            .map(|_| {
                backoff
                    .after_run(BackoffPolicy::UNITS, Duration::ZERO)
                    .as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let mut after = |secs| {
            backoff
                .after_run(BackoffPolicy::UNITS, Duration::from_secs(secs))
                .as_secs()
        };
        assert_eq!((after(600), after(599)), (1, 2));
    }

    #[test]
    fn executables_are_tried_sooner_and_never_later_than_half_a_minute() {
        let mut backoff = Backoff::default();
        let mut after = |secs| {
            let wait = backoff.after_run(BackoffPolicy::EXECUTABLES, Duration::from_secs(secs));
            wait.as_millis()
        };
        let waits: Vec<_> = (0..11).map(|_| after(0)).collect();
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[8..], [25_600, 30_000, 30_000]);
        assert_eq!((after(60), after(59)), (100, 200));
    }

    #[test]
    fn policies_decide_by_the_ending() {
        use RestartPolicy::{Always, Never, OnFailure};
        let ends = [
            Ending::Code(0),
            Ending::Code(1),
            Ending::Signal(9),
            Ending::OutOfMemory,
        ];
        for ending in ends {
            assert!(Always.wants_restart(ending));
            assert!(!Never.wants_restart(ending));
            assert_eq!(OnFailure.wants_restart(ending), ending != Ending::Code(0));
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_never_longer_than_five_minutes(lives in proptest::collection::vec(0u64..1200, 0..60)) {
            let mut backoff = Backoff::default();
            for lived in lives {
                let wait = backoff.after_run(BackoffPolicy::UNITS, Duration::from_secs(lived));
                prop_assert!((1..=300).contains(&wait.as_secs()));
            }
        }
    }
}
