//! The state of an instance, as reported to the server.

use strata_api::strata::v1;
use strata_types::Ending;
use strata_types::pod::PodState;

use super::host::UnitStatus;
use super::state::{Assigned, Progress};
use crate::clock::now_ms;
use crate::units::Health;

/// What else is known beside the unit itself.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportContext {
    /// How far the pull is that it waits for.
    pub(super) pulling: Option<String>,
    /// Stopped for want of a server.
    pub(super) fenced: bool,
    /// Something happened to the unit since the daemon started.
    pub(super) touched: bool,
}

/// How an instance is.
pub(super) fn report(
    assigned: &Assigned,
    seen: Option<&UnitStatus>,
    context: ReportContext,
) -> v1::InstanceReport {
    let own = seen.filter(|seen| seen.instance.as_deref() == Some(assigned.id.as_str()));
    let (state, reason) = state(assigned, own, context);
    let ending = own.and_then(|seen| seen.ending);
    let ended = !matches!(
        state,
        v1::PodState::Starting | v1::PodState::Running | v1::PodState::Created
    );
    v1::InstanceReport {
        id: assigned.id.clone(),
        generation: own.map_or(assigned.generation, |seen| seen.generation),
        state: state.into(),
        reason,
        address: own
            .and_then(|seen| seen.address)
            .map(|address| address.to_string())
            .unwrap_or_default(),
        restarts: own.map_or(0, |seen| seen.restarts),
        exit_code: match ending {
            Some(Ending::Code(code)) if ended => Some(code),
            // As a shell reports signals.
            Some(Ending::Signal(signal)) if ended => Some(128 + signal),
            Some(Ending::OutOfMemory) if ended => Some(137),
            _ => None,
        },
        out_of_memory: ended && ending == Some(Ending::OutOfMemory),
        health: health(own.map_or(Health::Unknown, |seen| seen.health)).into(),
        at_ms: now_ms(),
        epoch: assigned.epoch,
        control_plane: assigned.control_plane.clone(),
        given_up_at_start: (state == v1::PodState::Failed && is_given_up(assigned, own))
            .then_some(assigned.starts),
    }
}

/// Whether what failed is not tried again before the server sends another
/// assignment: the node could not make or start it, or its unit, which had been
/// started, could not be started again.
fn is_given_up(assigned: &Assigned, own: Option<&UnitStatus>) -> bool {
    let unit_failed = own.is_some_and(|seen| seen.state == PodState::Failed);
    match assigned.progress {
        Progress::GivenUp => true,
        Progress::Started(starts) => unit_failed && starts >= assigned.starts,
        Progress::Fresh | Progress::Stopped => false,
    }
}

/// The state, and the reason for it.
fn state(
    assigned: &Assigned,
    own: Option<&UnitStatus>,
    context: ReportContext,
) -> (v1::PodState, String) {
    let failed = |reason: &String| (v1::PodState::Failed, reason.clone());
    let making = match assigned.wanted {
        true => v1::PodState::Starting,
        false => v1::PodState::Created,
    };
    let Some(seen) = own else {
        return match &assigned.failure {
            Some(failure) => failed(failure),
            None => (making, context.pulling.unwrap_or_default()),
        };
    };
    let reason = seen.reason.clone();
    match (seen.state, &assigned.failure) {
        (PodState::Created | PodState::Failed | PodState::Stopped, Some(failure)) => {
            failed(failure)
        }
        // What becomes of a start that has failed is decided at once, and
        // reported then.
        (PodState::Created | PodState::Failed, None) if assigned.progress == Progress::Fresh => {
            (making, reason)
        }
        (PodState::Stopped, None) if context.fenced => {
            let why = "stopped: lease expired without a server, the instance may run elsewhere";
            (v1::PodState::Stopped, why.to_owned())
        }
        // It was not the server that stopped it, and no other caller has since
        // the daemon started: it had ended before.
        (PodState::Stopped, None)
            if matches!(assigned.progress, Progress::Started(_))
                && !context.touched
                && !seen.wanted =>
        {
            (v1::PodState::Exited, reason)
        }
        (state, _) => (state.into(), reason),
    }
}

fn health(health: Health) -> v1::PodHealth {
    match health {
        Health::Unknown => v1::PodHealth::Unspecified,
        Health::Starting => v1::PodHealth::Starting,
        Health::Healthy => v1::PodHealth::Healthy,
        Health::Unhealthy => v1::PodHealth::Unhealthy,
    }
}

/// An instance that is gone.
pub(super) fn gone(id: String, generation: u64, epoch: u64) -> v1::InstanceReport {
    v1::InstanceReport {
        id,
        generation,
        state: v1::PodState::Unspecified.into(),
        at_ms: now_ms(),
        epoch,
        ..v1::InstanceReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::assigned_spec::tests::pod;
    use super::super::runtime::tests::seen;
    use super::*;

    fn told(assigned: &Assigned, seen: Option<&UnitStatus>) -> v1::InstanceReport {
        report(assigned, seen, ReportContext::default())
    }

    #[test]
    fn missing_unit_is_reported_as_starting_or_failed() {
        let mut assigned = pod("i", "web", 3);
        let report = told(&assigned, None);
        assert_eq!(report.state(), v1::PodState::Starting);
        assert_eq!((report.id.as_str(), report.generation), ("i", 3));
        assigned.failure = Some("no such image".into());
        let report = told(&assigned, None);
        assert_eq!(report.state(), v1::PodState::Failed);
        assert_eq!(report.reason, "no such image");
        // One of the same name of another owner implies nothing about it.
        let report = told(&assigned, Some(&seen("other", 9, PodState::Running)));
        assert_eq!(report.state(), v1::PodState::Failed);
    }

    #[test]
    fn exit_code_is_reported_only_after_the_unit_ended() {
        let mut assigned = pod("i", "web", 3);
        assigned.progress = Progress::Started(0);
        let mut unit = seen("i", 2, PodState::Exited);
        unit.ending = Some(Ending::OutOfMemory);
        let report = told(&assigned, Some(&unit));
        assert_eq!(report.exit_code, Some(137));
        assert!(report.out_of_memory);
        assert_eq!(report.generation, 2, "it is of the one before");
        unit.state = PodState::Running;
        let report = told(&assigned, Some(&unit));
        assert_eq!((report.exit_code, report.out_of_memory), (None, false));
    }

    #[test]
    fn failure_is_reported_as_given_up_when_it_is_not_tried_again() {
        let mut assigned = pod("i", "web", 3);
        assigned.starts = 2;
        assigned.failure = Some("no such program; tried again in 1 s".into());
        assert_eq!(told(&assigned, None).given_up_at_start, None);
        let failed = seen("i", 3, PodState::Failed);
        assert_eq!(told(&assigned, Some(&failed)).given_up_at_start, None);
        assigned.progress = Progress::GivenUp;
        assert_eq!(told(&assigned, None).given_up_at_start, Some(2));
        assert_eq!(told(&assigned, Some(&failed)).given_up_at_start, Some(2));
        // Its unit was to start again by its restart policy, and could not.
        (assigned.failure, assigned.progress) = (None, Progress::Started(2));
        assert_eq!(told(&assigned, Some(&failed)).given_up_at_start, Some(2));
        let crashed = seen("i", 3, PodState::Waiting);
        assert_eq!(told(&assigned, Some(&crashed)).given_up_at_start, None);
        // Another start was requested, which is still to be tried.
        assigned.progress = Progress::Started(1);
        assert_eq!(told(&assigned, Some(&failed)).given_up_at_start, None);
    }

    #[test]
    fn failed_start_is_reported_once_it_is_decided_what_becomes_of_it() {
        let mut assigned = pod("i", "web", 3);
        let failed = seen("i", 3, PodState::Failed);
        assert_eq!(
            told(&assigned, Some(&failed)).state(),
            v1::PodState::Starting
        );
        assigned.failure = Some("no such program".into());
        assert_eq!(told(&assigned, Some(&failed)).state(), v1::PodState::Failed);
    }

    #[test]
    fn pull_progress_is_reported() {
        let assigned = pod("i", "web", 3);
        let context = ReportContext {
            pulling: Some("pulling the image: 3 of 9 MB".into()),
            ..ReportContext::default()
        };
        let told = report(&assigned, None, context);
        assert_eq!(told.state(), v1::PodState::Starting);
        assert_eq!(told.reason, "pulling the image: 3 of 9 MB");
    }

    #[test]
    fn unit_that_ended_during_a_daemon_restart_is_reported_as_exited() {
        let mut assigned = pod("i", "web", 3);
        let unit = seen("i", 3, PodState::Stopped);
        let state = |assigned: &Assigned, context| report(assigned, Some(&unit), context).state();
        let (before, touched) = (
            ReportContext::default(),
            ReportContext {
                touched: true,
                ..ReportContext::default()
            },
        );
        assigned.progress = Progress::Started(0);
        assert_eq!(state(&assigned, before.clone()), v1::PodState::Exited);
        assert_eq!(state(&assigned, touched), v1::PodState::Stopped);
        assigned.progress = Progress::Stopped;
        assert_eq!(state(&assigned, before), v1::PodState::Stopped);
    }
}
