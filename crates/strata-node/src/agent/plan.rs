//! What is to be done for an instance, from what was assigned and what is
//! there. Pure; each step is done and then looked at again, so a step that was
//! cut short is simply found again.

use strata_types::pod::PodState;

use super::assigned_spec::UnitName;
use super::host::UnitStatus;
use super::state::{Assigned, Progress};

/// What is known of an instance.
pub(super) struct PlanInput<'a> {
    pub(super) assigned: &'a Assigned,
    pub(super) going: bool,
    /// No server answered for too long: it may run elsewhere.
    pub(super) fenced: bool,
    /// The unit of its name.
    pub(super) seen: Option<&'a UnitStatus>,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Nothing,
    /// Destroy what it was under another name.
    RemoveSuperseded(UnitName),
    Create,
    Start,
    Stop,
    /// Nothing needs to be done for it to be so.
    Note(Progress),
    /// Destroy the unit; what follows is done when it is gone.
    Destroy,
    /// Nothing of it is left: remove it.
    Forget,
    /// It cannot be had here.
    Refuse(String),
}

/// The next thing to do.
pub(super) fn decide(facts: &PlanInput<'_>) -> NextStep {
    let PlanInput {
        assigned,
        going,
        fenced,
        seen,
    } = facts;
    if let Some(old) = assigned.superseded.last() {
        return NextStep::RemoveSuperseded(old.clone());
    }
    let Some(seen) = seen else {
        return match (going, fenced, assigned.progress) {
            (true, ..) => NextStep::Forget,
            (_, true, _) | (.., Progress::GivenUp) => NextStep::Nothing,
            _ => NextStep::Create,
        };
    };
    // No other instance has a unit of its name.
    let own = seen.damaged || seen.instance.as_deref() == Some(assigned.id.as_str());
    match (own, going) {
        (true, true) => return NextStep::Destroy,
        (false, true) => return NextStep::Forget,
        (false, false) => {
            let name = assigned.unit_spec.unit().name;
            return NextStep::Refuse(format!(
                "there is a pod or virtual machine {:?} on this node that is not of this instance",
                name.as_str()
            ));
        }
        (true, false) => {}
    }
    if *fenced {
        return match is_up(seen.state) {
            true => NextStep::Stop,
            false => NextStep::Nothing,
        };
    }
    let replaced = seen.damaged || seen.generation != assigned.generation;
    if replaced || seen.state == PodState::Destroying {
        return NextStep::Destroy;
    }
    match assigned.wanted {
        true => started(assigned, seen),
        false if is_up(seen.state) => NextStep::Stop,
        false if assigned.progress != Progress::Stopped => NextStep::Note(Progress::Stopped),
        false => NextStep::Nothing,
    }
}

/// What makes it be started, as often as was requested.
fn started(assigned: &Assigned, seen: &UnitStatus) -> NextStep {
    use PodState::{Created, Running, Starting, Stopped, Waiting};
    match (assigned.progress, seen.state) {
        (Progress::GivenUp, _) => NextStep::Nothing,
        (Progress::Started(n), state) if n >= assigned.starts => {
            // It was to run when the machine or the daemon ended, and waited
            // for this word.
            let rests = seen.wanted && matches!(state, Stopped | Created);
            if rests {
                NextStep::Start
            } else {
                NextStep::Nothing
            }
        }
        (_, Running | Starting | Waiting) => NextStep::Note(Progress::Started(assigned.starts)),
        _ => NextStep::Start,
    }
}

fn is_up(state: PodState) -> bool {
    state.is_up() || state == PodState::Waiting
}

#[cfg(test)]
mod tests {
    use PodState::{Created, Destroying, Exited, Failed, Running, Stopped, Waiting};

    use super::super::assigned_spec::tests::pod;
    use super::super::runtime::tests::seen;
    use super::*;

    fn next(assigned: &Assigned, seen: Option<&UnitStatus>) -> NextStep {
        decide(&PlanInput {
            assigned,
            going: false,
            fenced: false,
            seen,
        })
    }

    fn assigned(progress: Progress) -> Assigned {
        Assigned {
            progress,
            ..pod("i", "web", 2)
        }
    }

    #[test]
    fn unit_is_created_then_started_then_left_alone() {
        let fresh = assigned(Progress::Fresh);
        assert_eq!(next(&fresh, None), NextStep::Create);
        assert_eq!(next(&fresh, Some(&seen("i", 2, Created))), NextStep::Start);
        let started = NextStep::Note(Progress::Started(0));
        assert_eq!(next(&fresh, Some(&seen("i", 2, Running))), started);
        let done = assigned(Progress::Started(0));
        for state in [Running, Waiting, Exited, Failed, Stopped] {
            assert_eq!(next(&done, Some(&seen("i", 2, state))), NextStep::Nothing);
        }
    }

    #[test]
    fn exited_unit_is_started_once_per_requested_start() {
        let mut again = assigned(Progress::Started(0));
        again.starts = 1;
        assert_eq!(next(&again, Some(&seen("i", 2, Exited))), NextStep::Start);
        let noted = NextStep::Note(Progress::Started(1));
        assert_eq!(next(&again, Some(&seen("i", 2, Running))), noted);
    }

    #[test]
    fn unit_lost_in_a_reboot_is_started_when_assigned_again() {
        let done = assigned(Progress::Started(0));
        let rests = UnitStatus {
            wanted: true,
            ..seen("i", 2, Stopped)
        };
        assert_eq!(next(&done, Some(&rests)), NextStep::Start);
    }

    #[test]
    fn unit_follows_the_desired_state() {
        let mut stop = assigned(Progress::Started(0));
        stop.wanted = false;
        assert_eq!(next(&stop, Some(&seen("i", 2, Running))), NextStep::Stop);
        assert_eq!(next(&stop, Some(&seen("i", 2, Waiting))), NextStep::Stop);
        let noted = NextStep::Note(Progress::Stopped);
        assert_eq!(next(&stop, Some(&seen("i", 2, Exited))), noted);
        stop.progress = Progress::Stopped;
        assert_eq!(next(&stop, Some(&seen("i", 2, Stopped))), NextStep::Nothing);
        stop.wanted = true;
        assert_eq!(next(&stop, Some(&seen("i", 2, Stopped))), NextStep::Start);
    }

    #[test]
    fn unit_of_an_old_generation_is_replaced() {
        let fresh = assigned(Progress::Fresh);
        assert_eq!(
            next(&fresh, Some(&seen("i", 1, Running))),
            NextStep::Destroy
        );
        assert_eq!(
            next(&fresh, Some(&seen("i", 2, Destroying))),
            NextStep::Destroy
        );
        let mut renamed = assigned(Progress::Fresh);
        let old = pod("i", "old", 1).unit_spec.unit();
        renamed.superseded.push(old.clone());
        assert_eq!(next(&renamed, None), NextStep::RemoveSuperseded(old));
    }

    #[test]
    fn unit_of_another_instance_is_left_alone() {
        let fresh = assigned(Progress::Fresh);
        let mut other = seen("j", 2, Running);
        assert!(matches!(next(&fresh, Some(&other)), NextStep::Refuse(_)));
        other.instance = None;
        assert!(matches!(next(&fresh, Some(&other)), NextStep::Refuse(_)));
        let gone = decide(&PlanInput {
            assigned: &fresh,
            going: true,
            fenced: false,
            seen: Some(&other),
        });
        assert_eq!(gone, NextStep::Forget);
    }

    #[test]
    fn damaged_unit_is_destroyed_before_another_is_made() {
        let fresh = assigned(Progress::Started(0));
        let damaged = UnitStatus {
            instance: None,
            damaged: true,
            ..seen("i", 0, Running)
        };
        assert_eq!(next(&fresh, Some(&damaged)), NextStep::Destroy);
        for (going, fenced, step) in [
            (true, false, NextStep::Destroy),
            (false, true, NextStep::Stop),
        ] {
            let facts = PlanInput {
                assigned: &fresh,
                going,
                fenced,
                seen: Some(&damaged),
            };
            assert_eq!(decide(&facts), step);
        }
    }

    #[test]
    fn withdrawn_unit_is_removed_in_every_state() {
        let fresh = assigned(Progress::GivenUp);
        let unit = seen("i", 1, Running);
        for (there, step) in [(Some(&unit), NextStep::Destroy), (None, NextStep::Forget)] {
            for fenced in [true, false] {
                let facts = PlanInput {
                    assigned: &fresh,
                    going: true,
                    fenced,
                    seen: there,
                };
                assert_eq!(decide(&facts), step);
            }
        }
    }

    #[test]
    fn without_a_server_what_runs_is_stopped_and_nothing_is_begun() {
        let done = assigned(Progress::Started(0));
        let step = |seen: Option<&UnitStatus>| {
            decide(&PlanInput {
                assigned: &done,
                going: false,
                fenced: true,
                seen,
            })
        };
        assert_eq!(step(Some(&seen("i", 2, Running))), NextStep::Stop);
        assert_eq!(step(Some(&seen("i", 1, Running))), NextStep::Stop);
        // What ended by itself is not to be taken for what was stopped.
        assert_eq!(step(Some(&seen("i", 2, Exited))), NextStep::Nothing);
        assert_eq!(step(None), NextStep::Nothing);
    }

    #[test]
    fn failed_unit_waits_for_a_new_assignment() {
        let gone = assigned(Progress::GivenUp);
        assert_eq!(next(&gone, None), NextStep::Nothing);
        assert_eq!(next(&gone, Some(&seen("i", 2, Failed))), NextStep::Nothing);
    }
}
