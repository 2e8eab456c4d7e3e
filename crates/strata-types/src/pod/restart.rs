//! What happens when a pod ends, and how long it waits before it is tried
//! again.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Ending;

/// What happens when a pod ends by itself.
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
    /// Whether a pod that ended so is started again.
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

/// How long to wait before the next try: 1 s, doubled each time up to 5
/// minutes, from 1 s again after 10 good minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(300);
    const GOOD: Duration = Duration::from_secs(600);

    /// Takes in an end after so long a run; answers how long to wait.
    pub fn after_run(&mut self, lived: Duration) -> Duration {
        if lived >= Self::GOOD {
            self.tries = 0;
        }
        let doubled = 1u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        self.tries = self.tries.saturating_add(1);
        Self::FIRST.saturating_mul(doubled).min(Self::LONGEST)
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
    fn waits_double_up_to_five_minutes_and_begin_anew_after_a_good_run() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..11)
            .map(|_| backoff.after_run(Duration::ZERO).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.after_run(Duration::from_secs(600)).as_secs(), 1);
        assert_eq!(backoff.after_run(Duration::from_secs(599)).as_secs(), 2);
    }

    #[test]
    fn policies_judge_endings() {
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
                let wait = backoff.after_run(Duration::from_secs(lived));
                prop_assert!((1..=300).contains(&wait.as_secs()));
            }
        }
    }
}
