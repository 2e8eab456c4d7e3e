//! Which events of an instance repeat earlier ones. An instance that every node
//! refuses, or that never comes up, goes through the same few states again and
//! again: that is counted at the event it repeats, so that it does not push all
//! others out of what is remembered.

use std::collections::HashMap;

use strata_types::instance::{InstanceId, InstanceState};

use super::record::Instance;
use super::tables::RecordChange;

/// An instance with more messages than this is not counted any more.
const MAX_MESSAGES: usize = 64;

/// For each instance that has not run since, its messages, each with the number
/// of its event.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<InstanceId, Vec<(String, u64)>>);

impl Repeats {
    /// The number of the event that this one repeats; if it repeats none, it is
    /// to have the number `next`.
    pub(super) fn find(
        &mut self,
        change: &RecordChange<Instance>,
        message: &str,
        next: u64,
    ) -> Option<u64> {
        let Some(now) = change.after.as_ref() else {
            if let Some(gone) = &change.before {
                self.0.remove(&gone.id);
            }
            return None;
        };
        let asked = |one: &Instance| (one.generation, one.starts, one.desired_state);
        let asked_again = (change.before.as_ref()).is_none_or(|before| asked(before) != asked(now));
        if asked_again || !is_on_its_way(now.state) {
            self.0.remove(&now.id);
            return None;
        }
        let said = self.0.entry(now.id.clone()).or_default();
        if let Some((_, number)) = said.iter().find(|(before, _)| before == message) {
            return Some(*number);
        }
        if said.len() >= MAX_MESSAGES {
            said.clear();
        }
        said.push((message.to_owned(), next));
        None
    }
}

/// States that an instance goes through before it runs, or in place of it.
fn is_on_its_way(state: InstanceState) -> bool {
    use InstanceState::{Crashed, Failed, Scheduled, Scheduling, Starting};
    matches!(state, Scheduling | Scheduled | Starting | Failed | Crashed)
}
