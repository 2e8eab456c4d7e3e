//! What is to be done for an instance, from what was assigned and what is
//! there. Pure; each step is done and then looked at anew, so a step that was
//! cut short is simply found again.

use strata_types::pod::PodState;

use super::ask::UnitName;
use super::hosting::Seen;
use super::state::{Assigned, Progress};

/// What is known of an instance.
pub(super) struct Facts<'a> {
    pub(super) assigned: &'a Assigned,
    /// It was withdrawn.
    pub(super) going: bool,
    /// No server was heard of for too long: it may run elsewhere.
    pub(super) fenced: bool,
    /// The unit of its name.
    pub(super) seen: Option<&'a Seen>,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Destroy what it was under another name.
    DropOutgrown(UnitName),
    Create,
    Start,
    Stop,
    /// Nothing needs to be done for it to be so.
    Note(Progress),
    /// Destroy the unit; what follows is seen to when it is gone.
    Destroy,
    /// Nothing of it is left: forget it.
    Forget,
    /// It cannot be had here.
    Refuse(String),
}

/// The next thing to do.
pub(super) fn decide(facts: &Facts<'_>) -> Step {
    let Facts {
        assigned,
        going,
        fenced,
        seen,
    } = facts;
    if let Some(old) = assigned.outgrown.last() {
        return Step::DropOutgrown(old.clone());
    }
    let Some(seen) = seen else {
        return match (going, fenced, assigned.progress) {
            (true, ..) => Step::Forget,
            (_, true, _) | (.., Progress::GivenUp) => Step::Nothing,
            _ => Step::Create,
        };
    };
    // No other instance has a unit of its name.
    let own = seen.damaged || seen.instance.as_deref() == Some(assigned.id.as_str());
    match (own, going) {
        (true, true) => return Step::Destroy,
        (false, true) => return Step::Forget,
        (false, false) => {
            let name = assigned.ask.unit().name;
            return Step::Refuse(format!(
                "there is a pod or virtual machine {:?} on this node that is not of this instance",
                name.as_str()
            ));
        }
        (true, false) => {}
    }
    if *fenced {
        return match is_up(seen.state) {
            true => Step::Stop,
            false => Step::Nothing,
        };
    }
    let replaced = seen.damaged || seen.generation != assigned.generation;
    if replaced || seen.state == PodState::Destroying {
        return Step::Destroy;
    }
    match assigned.wanted {
        true => started(assigned, seen),
        false if is_up(seen.state) => Step::Stop,
        false if assigned.progress != Progress::Stopped => Step::Note(Progress::Stopped),
        false => Step::Nothing,
    }
}

/// What makes it be started, as often as was asked for.
fn started(assigned: &Assigned, seen: &Seen) -> Step {
    use PodState::{Created, Running, Starting, Stopped, Waiting};
    match (assigned.progress, seen.state) {
        (Progress::GivenUp, _) => Step::Nothing,
        (Progress::Started(n), state) if n >= assigned.starts => {
            // It was to run when the machine or the daemon ended, and waited
            // for this word.
            let rests = seen.wanted && matches!(state, Stopped | Created);
            if rests { Step::Start } else { Step::Nothing }
        }
        (_, Running | Starting | Waiting) => Step::Note(Progress::Started(assigned.starts)),
        _ => Step::Start,
    }
}

fn is_up(state: PodState) -> bool {
    state.is_up() || state == PodState::Waiting
}

#[cfg(test)]
mod tests {
    use PodState::{Created, Destroying, Exited, Failed, Running, Stopped, Waiting};

    use super::super::ask::tests::pod;
    use super::super::hosting::tests::seen;
    use super::*;

    fn next(assigned: &Assigned, seen: Option<&Seen>) -> Step {
        decide(&Facts {
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
    fn it_is_made_then_started_then_left_alone() {
        let fresh = assigned(Progress::Fresh);
        assert_eq!(next(&fresh, None), Step::Create);
        assert_eq!(next(&fresh, Some(&seen("i", 2, Created))), Step::Start);
        let started = Step::Note(Progress::Started(0));
        assert_eq!(next(&fresh, Some(&seen("i", 2, Running))), started);
        let done = assigned(Progress::Started(0));
        for state in [Running, Waiting, Exited, Failed, Stopped] {
            assert_eq!(next(&done, Some(&seen("i", 2, state))), Step::Nothing);
        }
    }

    #[test]
    fn what_ended_by_itself_is_started_once_for_each_wish() {
        let mut again = assigned(Progress::Started(0));
        again.starts = 1;
        assert_eq!(next(&again, Some(&seen("i", 2, Exited))), Step::Start);
        let noted = Step::Note(Progress::Started(1));
        assert_eq!(next(&again, Some(&seen("i", 2, Running))), noted);
    }

    #[test]
    fn what_was_to_run_when_the_machine_ended_runs_when_told_again() {
        let done = assigned(Progress::Started(0));
        let rests = Seen {
            wanted: true,
            ..seen("i", 2, Stopped)
        };
        assert_eq!(next(&done, Some(&rests)), Step::Start);
    }

    #[test]
    fn it_is_stopped_and_started_as_wanted() {
        let mut stop = assigned(Progress::Started(0));
        stop.wanted = false;
        assert_eq!(next(&stop, Some(&seen("i", 2, Running))), Step::Stop);
        assert_eq!(next(&stop, Some(&seen("i", 2, Waiting))), Step::Stop);
        let noted = Step::Note(Progress::Stopped);
        assert_eq!(next(&stop, Some(&seen("i", 2, Exited))), noted);
        stop.progress = Progress::Stopped;
        assert_eq!(next(&stop, Some(&seen("i", 2, Stopped))), Step::Nothing);
        stop.wanted = true;
        assert_eq!(next(&stop, Some(&seen("i", 2, Stopped))), Step::Start);
    }

    #[test]
    fn another_generation_takes_its_place() {
        let fresh = assigned(Progress::Fresh);
        assert_eq!(next(&fresh, Some(&seen("i", 1, Running))), Step::Destroy);
        assert_eq!(next(&fresh, Some(&seen("i", 2, Destroying))), Step::Destroy);
        let mut renamed = assigned(Progress::Fresh);
        let old = pod("i", "old", 1).ask.unit();
        renamed.outgrown.push(old.clone());
        assert_eq!(next(&renamed, None), Step::DropOutgrown(old));
    }

    #[test]
    fn what_is_not_its_own_is_not_touched() {
        let fresh = assigned(Progress::Fresh);
        let mut other = seen("j", 2, Running);
        assert!(matches!(next(&fresh, Some(&other)), Step::Refuse(_)));
        other.instance = None;
        assert!(matches!(next(&fresh, Some(&other)), Step::Refuse(_)));
        let gone = decide(&Facts {
            assigned: &fresh,
            going: true,
            fenced: false,
            seen: Some(&other),
        });
        assert_eq!(gone, Step::Forget);
    }

    #[test]
    fn damaged_unit_is_destroyed_before_another_is_made() {
        let fresh = assigned(Progress::Started(0));
        let damaged = Seen {
            instance: None,
            damaged: true,
            ..seen("i", 0, Running)
        };
        assert_eq!(next(&fresh, Some(&damaged)), Step::Destroy);
        for (going, fenced, step) in [(true, false, Step::Destroy), (false, true, Step::Stop)] {
            let facts = Facts {
                assigned: &fresh,
                going,
                fenced,
                seen: Some(&damaged),
            };
            assert_eq!(decide(&facts), step);
        }
    }

    #[test]
    fn what_was_withdrawn_goes_whatever_it_is() {
        let fresh = assigned(Progress::GivenUp);
        let unit = seen("i", 1, Running);
        for (there, step) in [(Some(&unit), Step::Destroy), (None, Step::Forget)] {
            for fenced in [true, false] {
                let facts = Facts {
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
        let step = |seen: Option<&Seen>| {
            decide(&Facts {
                assigned: &done,
                going: false,
                fenced: true,
                seen,
            })
        };
        assert_eq!(step(Some(&seen("i", 2, Running))), Step::Stop);
        assert_eq!(step(Some(&seen("i", 1, Running))), Step::Stop);
        // What ended by itself is not to be taken for what was stopped.
        assert_eq!(step(Some(&seen("i", 2, Exited))), Step::Nothing);
        assert_eq!(step(None), Step::Nothing);
    }

    #[test]
    fn what_was_given_up_waits_for_another_wish() {
        let gone = assigned(Progress::GivenUp);
        assert_eq!(next(&gone, None), Step::Nothing);
        assert_eq!(next(&gone, Some(&seen("i", 2, Failed))), Step::Nothing);
    }
}
