//! The state of an instance on the wire. Each published document numbers its
//! enum differently, so each has its own table; no number is passed through.

use strata_types::instance::{InstanceKind, InstanceState, Resources};

use crate::{controller, scheduler};

/// As package `scheduler` has it. It has no word for a crash: that is FAILED,
/// and the description says so.
pub fn state_to_scheduler(state: InstanceState) -> scheduler::Status {
    use scheduler::Status;
    match state {
        InstanceState::Scheduling => Status::Scheduling,
        InstanceState::Scheduled => Status::Scheduled,
        InstanceState::Starting => Status::Starting,
        InstanceState::Running => Status::Running,
        InstanceState::Stopping => Status::Stopping,
        InstanceState::Stopped => Status::Stopped,
        InstanceState::Crashed | InstanceState::Failed => Status::Failed,
        InstanceState::Destroying => Status::Destroying,
        InstanceState::Terminated => Status::Terminated,
    }
}

/// From what package `scheduler` has.
pub fn state_from_scheduler(status: scheduler::Status) -> InstanceState {
    use scheduler::Status;
    match status {
        Status::Scheduling => InstanceState::Scheduling,
        Status::Scheduled => InstanceState::Scheduled,
        Status::Starting => InstanceState::Starting,
        Status::Running => InstanceState::Running,
        Status::Stopping => InstanceState::Stopping,
        Status::Stopped => InstanceState::Stopped,
        Status::Failed => InstanceState::Failed,
        Status::Destroying => InstanceState::Destroying,
        Status::Terminated => InstanceState::Terminated,
    }
}

/// As package `controller` has it.
pub fn state_to_controller(state: InstanceState) -> controller::Status {
    use controller::Status;
    match state {
        InstanceState::Scheduling => Status::Scheduling,
        InstanceState::Scheduled => Status::Scheduled,
        InstanceState::Starting => Status::Starting,
        InstanceState::Running => Status::Running,
        InstanceState::Stopping => Status::Stopping,
        InstanceState::Stopped => Status::Stopped,
        InstanceState::Crashed => Status::Crashed,
        InstanceState::Failed => Status::Failed,
        InstanceState::Destroying => Status::Destroying,
        InstanceState::Terminated => Status::Terminated,
    }
}

/// From what package `controller` has.
pub fn state_from_controller(status: controller::Status) -> InstanceState {
    use controller::Status;
    match status {
        Status::Scheduling => InstanceState::Scheduling,
        Status::Scheduled => InstanceState::Scheduled,
        Status::Starting => InstanceState::Starting,
        Status::Running => InstanceState::Running,
        Status::Stopping => InstanceState::Stopping,
        Status::Stopped => InstanceState::Stopped,
        Status::Crashed => InstanceState::Crashed,
        Status::Failed => InstanceState::Failed,
        Status::Destroying => InstanceState::Destroying,
        Status::Terminated => InstanceState::Terminated,
    }
}

/// From what package `scheduler` has.
pub fn kind_from_scheduler(kind: scheduler::Type) -> InstanceKind {
    match kind {
        scheduler::Type::Container => InstanceKind::Container,
        scheduler::Type::Vm => InstanceKind::Vm,
    }
}

impl From<Resources> for scheduler::ResourceSummary {
    fn from(resources: Resources) -> Self {
        Self {
            cpu: resources.cpu,
            memory: resources.memory,
            disk: resources.disk,
        }
    }
}

impl From<scheduler::ResourceSummary> for Resources {
    fn from(summary: scheduler::ResourceSummary) -> Self {
        Self {
            cpu: summary.cpu,
            memory: summary.memory,
            disk: summary.disk,
        }
    }
}

impl From<controller::ResourceSummary> for Resources {
    fn from(summary: controller::ResourceSummary) -> Self {
        Self {
            cpu: summary.cpu,
            memory: summary.memory,
            disk: summary.disk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the published documents, written out by hand.
    const SCHEDULER: [(InstanceState, i32); 10] = [
        (InstanceState::Running, 0),
        (InstanceState::Starting, 1),
        (InstanceState::Stopped, 2),
        (InstanceState::Stopping, 3),
        (InstanceState::Destroying, 4),
        (InstanceState::Terminated, 5),
        (InstanceState::Failed, 6),
        (InstanceState::Crashed, 6),
        (InstanceState::Scheduling, 7),
        (InstanceState::Scheduled, 8),
    ];
    const CONTROLLER: [(InstanceState, i32); 10] = [
        (InstanceState::Running, 0),
        (InstanceState::Starting, 1),
        (InstanceState::Stopped, 2),
        (InstanceState::Stopping, 3),
        (InstanceState::Destroying, 4),
        (InstanceState::Terminated, 5),
        (InstanceState::Crashed, 6),
        (InstanceState::Failed, 7),
        (InstanceState::Scheduling, 8),
        (InstanceState::Scheduled, 9),
    ];

    #[test]
    fn every_state_has_the_number_of_its_document() {
        for state in InstanceState::ALL {
            let number = |table: &[(InstanceState, i32)]| {
                table.iter().find(|(of, _)| *of == state).map(|(_, n)| *n)
            };
            assert_eq!(Some(state_to_scheduler(state) as i32), number(&SCHEDULER));
            assert_eq!(Some(state_to_controller(state) as i32), number(&CONTROLLER));
        }
    }

    #[test]
    fn every_number_comes_back_as_the_state_it_was() {
        for (state, number) in SCHEDULER
            .iter()
            .filter(|(s, _)| *s != InstanceState::Crashed)
        {
            let status = scheduler::Status::try_from(*number).unwrap();
            assert_eq!(state_from_scheduler(status), *state);
        }
        for (state, number) in CONTROLLER {
            let status = controller::Status::try_from(number).unwrap();
            assert_eq!(state_from_controller(status), state);
        }
    }
}
