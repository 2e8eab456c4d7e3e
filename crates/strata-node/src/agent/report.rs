//! How an instance is, as the server is told.

use strata_api::strata::v1;
use strata_types::Ending;
use strata_types::pod::PodState;

use super::hosting::Seen;
use super::state::{Assigned, Progress};
use crate::clock::now_ms;
use crate::units::Health;

/// What else is known beside the unit itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
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
    seen: Option<&Seen>,
    circumstances: Circumstances,
) -> v1::InstanceReport {
    let own = seen.filter(|seen| seen.instance.as_deref() == Some(assigned.id.as_str()));
    let (state, reason) = state(assigned, own, circumstances);
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
            // As a shell tells of signals.
            Some(Ending::Signal(signal)) if ended => Some(128 + signal),
            Some(Ending::OutOfMemory) if ended => Some(137),
            _ => None,
        },
        out_of_memory: ended && ending == Some(Ending::OutOfMemory),
        health: health(own.map_or(Health::Unknown, |seen| seen.health)).into(),
        at_ms: now_ms(),
        epoch: assigned.epoch,
        control_plane: assigned.control_plane.clone(),
    }
}

/// The state, and the reason for it.
fn state(
    assigned: &Assigned,
    own: Option<&Seen>,
    circumstances: Circumstances,
) -> (v1::PodState, String) {
    let failed = |reason: &String| (v1::PodState::Failed, reason.clone());
    let making = match assigned.wanted {
        true => v1::PodState::Starting,
        false => v1::PodState::Created,
    };
    let Some(seen) = own else {
        return match &assigned.failure {
            Some(failure) => failed(failure),
            None => (making, circumstances.pulling.unwrap_or_default()),
        };
    };
    let reason = seen.reason.clone();
    match (seen.state, &assigned.failure) {
        (PodState::Created | PodState::Failed | PodState::Stopped, Some(failure)) => {
            failed(failure)
        }
        (PodState::Created, None) if assigned.progress == Progress::Fresh => (making, reason),
        (PodState::Stopped, None) if circumstances.fenced => {
            let why = "stopped: no server was heard of, and it may run elsewhere";
            (v1::PodState::Stopped, why.to_owned())
        }
        // It was not the server that stopped it, and nobody else has since the
        // daemon started: it had ended before.
        (PodState::Stopped, None)
            if matches!(assigned.progress, Progress::Started(_))
                && !circumstances.touched
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
    use super::super::ask::tests::pod;
    use super::super::hosting::tests::seen;
    use super::*;

    fn told(assigned: &Assigned, seen: Option<&Seen>) -> v1::InstanceReport {
        report(assigned, seen, Circumstances::default())
    }

    #[test]
    fn what_is_not_there_yet_is_on_its_way_or_failed() {
        let mut assigned = pod("i", "web", 3);
        let report = told(&assigned, None);
        assert_eq!(report.state(), v1::PodState::Starting);
        assert_eq!((report.id.as_str(), report.generation), ("i", 3));
        assigned.failure = Some("no such image".into());
        let report = told(&assigned, None);
        assert_eq!(report.state(), v1::PodState::Failed);
        assert_eq!(report.reason, "no such image");
        // Somebody else's of the same name says nothing about it.
        let report = told(&assigned, Some(&seen("other", 9, PodState::Running)));
        assert_eq!(report.state(), v1::PodState::Failed);
    }

    #[test]
    fn an_end_is_told_once_it_is_one() {
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
    fn a_pull_that_is_waited_for_is_told() {
        let assigned = pod("i", "web", 3);
        let circumstances = Circumstances {
            pulling: Some("pulling the image: 3 of 9 MB".into()),
            ..Circumstances::default()
        };
        let told = report(&assigned, None, circumstances);
        assert_eq!(told.state(), v1::PodState::Starting);
        assert_eq!(told.reason, "pulling the image: 3 of 9 MB");
    }

    #[test]
    fn what_ended_while_the_daemon_was_away_was_not_stopped() {
        let mut assigned = pod("i", "web", 3);
        let unit = seen("i", 3, PodState::Stopped);
        let state = |assigned: &Assigned, circumstances| {
            report(assigned, Some(&unit), circumstances).state()
        };
        let (before, touched) = (
            Circumstances::default(),
            Circumstances {
                touched: true,
                ..Circumstances::default()
            },
        );
        assigned.progress = Progress::Started(0);
        assert_eq!(state(&assigned, before.clone()), v1::PodState::Exited);
        assert_eq!(state(&assigned, touched), v1::PodState::Stopped);
        assigned.progress = Progress::Stopped;
        assert_eq!(state(&assigned, before), v1::PodState::Stopped);
    }
}
