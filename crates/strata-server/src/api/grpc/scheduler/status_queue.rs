//! What waits to be read on the stream of one instance: every change in order,
//! the latest measured use once, and where a reader is slower than that, a
//! message that says how many changes it does not contain.

use std::collections::VecDeque;

use strata_api::scheduler::{InstanceStatus, Status};

/// Changes that wait for one reader. At some 200 bytes each this bounds what a
/// reader that does not read costs.
const MAX_QUEUED: usize = 2048;

/// Statuses on their way to one reader.
#[derive(Debug, Default)]
pub(super) struct StatusQueue {
    waiting: VecDeque<InstanceStatus>,
    /// The last one that was put in or left out.
    latest: Option<InstanceStatus>,
    /// Changes that were left out after the last one that waits.
    left_out: u64,
}

impl StatusQueue {
    /// Takes in how the instance is now. What is as it was is not repeated.
    pub(super) fn push(&mut self, status: InstanceStatus) {
        let Some(latest) = self.latest.replace(status.clone()) else {
            self.waiting.push_back(status);
            return;
        };
        if latest == status {
            return;
        }
        if same_but_use(&latest, &status) {
            self.push_use(status);
            return;
        }
        if let Some(starting) = passed_through(&latest, &status) {
            self.push_change(starting);
        }
        self.push_change(status);
    }

    /// Takes in what the instance uses now, also where that is as it was: a
    /// reader sees by it that the instance is measured.
    pub(super) fn measure(&mut self, status: InstanceStatus) {
        let same = |latest: &InstanceStatus| same_but_use(latest, &status);
        match self.latest.as_ref().is_some_and(same) {
            true => {
                self.latest = Some(status.clone());
                self.push_use(status);
            }
            false => self.push(status),
        }
    }

    /// Notes changes that were missed before they came here.
    pub(super) fn miss(&mut self, changes: u64) {
        self.left_out += changes;
    }

    /// Whether there is something to read.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.left_out == 0
    }

    /// The next one to be read.
    pub(super) fn pop(&mut self) -> Option<InstanceStatus> {
        self.waiting.pop_front().or_else(|| self.take_gap())
    }

    fn push_change(&mut self, status: InstanceStatus) {
        if self.left_out == 0 && self.waiting.len() < MAX_QUEUED {
            self.waiting.push_back(status);
        } else {
            self.left_out += 1;
        }
    }

    /// Only the latest use is of interest to a reader that is behind.
    fn push_use(&mut self, status: InstanceStatus) {
        if self.left_out > 0 {
            return;
        }
        match self.waiting.back_mut() {
            Some(last) if same_but_use(last, &status) => *last = status,
            Some(_) => self.push_change(status),
            None => self.waiting.push_back(status),
        }
    }

    /// How the instance is now, with the number of changes that were left out.
    fn take_gap(&mut self) -> Option<InstanceStatus> {
        let left_out = std::mem::take(&mut self.left_out);
        let mut status = self.latest.clone().filter(|_| left_out > 0)?;
        let said = std::mem::take(&mut status.status_description);
        let separator = if said.is_empty() { "" } else { ": " };
        status.status_description = format!(
            "{left_out} changes were left out, since the stream was read too slowly{separator}{said}"
        );
        Some(status)
    }
}

/// Whether only what it uses differs.
fn same_but_use(one: &InstanceStatus, other: &InstanceStatus) -> bool {
    let limit = |status: &InstanceStatus| status.resource.and_then(|resource| resource.limit);
    one.status == other.status
        && one.status_description == other.status_description
        && limit(one) == limit(other)
}

/// STARTING, where an instance was seen before it and after it: nodes report
/// how it is when they report, and a start may be quicker.
fn passed_through(before: &InstanceStatus, after: &InstanceStatus) -> Option<InstanceStatus> {
    let started = matches!(
        before.status(),
        Status::Scheduling | Status::Scheduled | Status::Stopped | Status::Failed
    );
    (started && after.status() == Status::Running).then(|| {
        let mut starting = after.clone();
        starting.set_status(Status::Starting);
        starting.status_description = String::new();
        if let Some(resource) = &mut starting.resource {
            resource.usage = None;
        }
        starting
    })
}

#[cfg(test)]
mod tests {
    use strata_api::scheduler::{Resource, ResourceSummary};

    use super::*;

    fn status(state: Status, description: &str, cpu: i32) -> InstanceStatus {
        let usage = ResourceSummary {
            cpu,
            ..ResourceSummary::default()
        };
        InstanceStatus {
            id: "i".into(),
            status: state.into(),
            status_description: description.into(),
            resource: Some(Resource {
                limit: None,
                usage: Some(usage),
            }),
        }
    }

    fn read(queue: &mut StatusQueue) -> Vec<(Status, String)> {
        let all = std::iter::from_fn(|| queue.pop());
        all.map(|one| (one.status(), one.status_description))
            .collect()
    }

    #[test]
    fn unchanged_measured_use_is_still_sent() {
        let mut queue = StatusQueue::default();
        queue.push(status(Status::Running, "", 1));
        assert_eq!(read(&mut queue).len(), 1);
        queue.push(status(Status::Running, "", 1));
        assert_eq!(read(&mut queue).len(), 0);
        queue.measure(status(Status::Running, "", 1));
        assert_eq!(read(&mut queue).len(), 1);
    }

    #[test]
    fn every_change_waits_in_order_and_use_only_once() {
        let mut queue = StatusQueue::default();
        queue.push(status(Status::Running, "", 0));
        for cpu in 1..500 {
            queue.push(status(Status::Running, "", cpu));
        }
        queue.push(status(Status::Stopping, "", 0));
        queue.push(status(Status::Stopping, "", 0));
        queue.push(status(Status::Stopped, "", 0));
        let states = read(&mut queue).into_iter().map(|(state, _)| state);
        let expected = [Status::Running, Status::Stopping, Status::Stopped];
        assert!(states.eq(expected));
        assert!(queue.is_empty());
    }

    #[test]
    fn slow_status_reader_gets_the_number_of_missed_changes() {
        let mut queue = StatusQueue::default();
        for n in 0..3000 {
            queue.push(status(Status::Running, &format!("change {n}"), 0));
        }
        queue.push(status(Status::Terminated, "exit 0", 0));
        let all = read(&mut queue);
        assert_eq!(all.len(), MAX_QUEUED + 1);
        let (state, said) = all.last().unwrap();
        assert_eq!(*state, Status::Terminated, "the end is not left out");
        assert!(said.starts_with("953 changes were left out"), "{said}");
        assert!(said.ends_with(": exit 0"), "{said}");
        // From there on it is up to date.
        queue.push(status(Status::Running, "again", 0));
        assert_eq!(read(&mut queue), [(Status::Running, "again".to_owned())]);
    }

    #[test]
    fn start_is_always_on_the_way_to_running() {
        let mut queue = StatusQueue::default();
        queue.push(status(Status::Running, "", 0));
        queue.push(status(Status::Failed, "crashed: exit 3", 0));
        queue.push(status(Status::Running, "", 0));
        let states: Vec<Status> = read(&mut queue)
            .into_iter()
            .map(|(state, _)| state)
            .collect();
        let expected = [
            Status::Running,
            Status::Failed,
            Status::Starting,
            Status::Running,
        ];
        assert_eq!(states, expected);
    }

    #[test]
    fn missed_status_changes_are_reported_when_the_queue_is_empty() {
        let mut queue = StatusQueue::default();
        queue.push(status(Status::Running, "", 0));
        queue.pop();
        queue.miss(7);
        queue.push(status(Status::Stopped, "", 0));
        let (state, said) = read(&mut queue).remove(0);
        assert_eq!(state, Status::Stopped);
        assert!(said.starts_with("8 changes"), "{said}");
    }
}
