//! Kills for want of memory, as a cell of cgroup v1 counts them: one counter for
//! all of its runs.

/// How many of the counted kills are put down to a run already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccountedKills(u64);

impl AccountedKills {
    /// A run begins while the counter is at `count`. The counter of a group
    /// that was created again begins at 0, and so does what is accounted of it.
    pub(super) fn launched(&mut self, count: u64) {
        self.0 = self.0.min(count);
    }

    /// Whether a run that was killed can be put down to a kill that the counter
    /// knows, by its value when the run began and its value now.
    pub(super) fn attribute(&mut self, at_launch: u64, count: u64) -> bool {
        let before = at_launch.max(self.0);
        let is_new = count > before;
        if is_new {
            self.0 = before + 1;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kill_is_attributed_after_the_group_was_made_again() {
        let mut kills = AccountedKills::default();
        for _ in 0..3 {
            kills.launched(0);
            assert!(kills.attribute(0, 1));
        }
    }

    #[test]
    fn oom_kill_is_attributed_to_exactly_one_run() {
        let mut kills = AccountedKills::default();
        kills.launched(0);
        kills.launched(0);
        assert!(kills.attribute(0, 1));
        assert!(!kills.attribute(0, 1), "the other was killed by hand");
        kills.launched(1);
        assert!(!kills.attribute(1, 1));
    }
}
