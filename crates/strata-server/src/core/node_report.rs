//! What a node reports of itself by the states of the published APIs, and what
//! follows from each.
//!
//! | status | the node | its instances |
//! |---|---|---|
//! | RUNNING | takes instances | stay |
//! | STARTING, SCHEDULING, SCHEDULED | takes none yet | stay |
//! | STOPPING | takes none | are placed elsewhere while they run |
//! | STOPPED, FAILED, CRASHED | is lost | are placed elsewhere |
//! | DESTROYING | leaves as by Unregister | are placed elsewhere, then it goes |
//! | TERMINATED | is lost, and goes | are placed elsewhere |

use strata_types::instance::InstanceState;

use super::record::{NodeCondition, NodePhase};

/// The longest description that is kept.
const MAX_DESCRIPTION_LENGTH: usize = 512;

/// What a node reports of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Whether it is there.
    pub condition: NodeCondition,
    /// Whether it takes instances.
    pub phase: NodePhase,
    /// It goes when it is empty.
    pub leaves: bool,
    /// In its own words.
    pub description: String,
}

impl Default for NodeReport {
    fn default() -> Self {
        Self {
            condition: NodeCondition::Ready,
            phase: NodePhase::Running,
            leaves: false,
            description: String::new(),
        }
    }
}

impl NodeReport {
    /// What a published status with this description means.
    pub fn of(state: InstanceState, description: &str) -> Self {
        use InstanceState as S;
        let (condition, phase, usual) = match state {
            S::Running => (NodeCondition::Ready, NodePhase::Running, ""),
            S::Starting | S::Scheduling | S::Scheduled => {
                (NodeCondition::Ready, NodePhase::Starting, "it is starting")
            }
            S::Stopping | S::Destroying => {
                (NodeCondition::Ready, NodePhase::Stopping, "it is stopping")
            }
            S::Stopped => (NodeCondition::Lost, NodePhase::Running, "it has stopped"),
            S::Terminated => (NodeCondition::Lost, NodePhase::Running, "it has ended"),
            S::Failed | S::Crashed => (
                NodeCondition::Lost,
                NodePhase::Running,
                "it reports that it has failed",
            ),
        };
        let plain = description.chars();
        let plain = plain.map(|c| if c.is_control() { ' ' } else { c });
        let said: String = plain.take(MAX_DESCRIPTION_LENGTH).collect();
        Self {
            condition,
            phase,
            leaves: matches!(state, S::Destroying | S::Terminated),
            description: match said.trim().is_empty() {
                true => usual.to_owned(),
                false => said,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_status_of_a_node_has_a_meaning() {
        use InstanceState as S;
        use NodeCondition::{Lost, Ready};
        use NodePhase::{Running, Starting, Stopping};
        for state in S::ALL {
            let report = NodeReport::of(state, "");
            let meaning = (report.condition, report.phase, report.leaves);
            let expected = match state {
                S::Running => (Ready, Running, false),
                S::Starting | S::Scheduling | S::Scheduled => (Ready, Starting, false),
                S::Stopping => (Ready, Stopping, false),
                S::Destroying => (Ready, Stopping, true),
                S::Stopped | S::Failed | S::Crashed => (Lost, Running, false),
                S::Terminated => (Lost, Running, true),
            };
            assert_eq!(meaning, expected, "{state}");
            assert_eq!(
                report.description.is_empty(),
                state == S::Running,
                "{state}"
            );
        }
    }

    #[test]
    fn description_of_a_node_is_kept_short_and_plain() {
        let said = NodeReport::of(InstanceState::Running, &"a\u{1b}".repeat(600)).description;
        assert_eq!(said.chars().count(), MAX_DESCRIPTION_LENGTH);
        assert!(!said.contains('\u{1b}'));
    }
}
