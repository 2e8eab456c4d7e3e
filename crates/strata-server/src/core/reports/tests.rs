//! What follows from reports, state by state.

use strata_types::Label;
use strata_types::instance::InstanceSpec;

use super::*;

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn instance(desired_state: DesiredState, state: InstanceState) -> Instance {
    Instance {
        id: "a".parse().unwrap(),
        name: label("web"),
        project: label("default"),
        workload: None,
        spec: InstanceSpec {
            uri: "x".into(),
            resources: strata_types::instance::Resources {
                cpu: 100,
                memory: 64,
                disk: 1,
            },
            ..InstanceSpec::default()
        },
        defaulted: Default::default(),
        desired_state,
        generation: 2,
        starts: 0,
        state,
        description: "as it was".into(),
        given_up: false,
        limited_description: None,
        node: Some("n1".into()),
        epoch: 0,
        leaving: Vec::new(),
        restored: false,
        after: Vec::new(),
        address: None,
        restarts: 0,
        exit_code: None,
        healthy: None,
        refusals: Default::default(),
        project_succeeds_at_ms: 0,
        sized_volumes: false,
        owner: "me".into(),
        created_at_ms: 0,
        changed_at_ms: 0,
    }
}

fn report(told: ReportedState) -> Report {
    Report {
        id: "a".parse().unwrap(),
        epoch: 0,
        generation: Some(2),
        told,
        reason: String::new(),
        address: None,
        restarts: None,
        exit_code: None,
        healthy: None,
        given_up_at_start: None,
    }
}

fn next(now: &Instance, report: &Report) -> Option<Instance> {
    match apply_report(now, report) {
        WriteDecision::Put(next) => Some(*next),
        WriteDecision::Keep | WriteDecision::Delete => None,
    }
}

#[test]
fn states_of_pods_become_states_of_instances() {
    use InstanceState as I;
    use PodState as P;
    let running = instance(DesiredState::Running, I::Scheduled);
    for (pod, code, state) in [
        (P::Starting, None, I::Starting),
        (P::Running, None, I::Running),
        (P::Waiting, Some(3), I::Crashed),
        (P::Exited, Some(3), I::Crashed),
        (P::Exited, Some(0), I::Terminated),
        (P::Failed, None, I::Failed),
    ] {
        let mut told = report(ReportedState::Pod(pod));
        told.exit_code = code;
        assert_eq!(next(&running, &told).unwrap().state, state, "{pod:?}");
    }
    let mut crash = report(ReportedState::Pod(PodState::Exited));
    crash.exit_code = Some(3);
    let crashed = next(&running, &crash).unwrap();
    assert_eq!(crashed.description, "crashed: exit 3");
}

#[test]
fn report_never_changes_the_spec() {
    let now = instance(DesiredState::Running, InstanceState::Starting);
    for pod in PodState::ALL {
        if let Some(next) = next(&now, &report(ReportedState::Pod(pod))) {
            assert_eq!(next.spec, now.spec, "{pod:?}");
            assert_eq!(
                (next.desired_state, next.generation),
                (now.desired_state, now.generation)
            );
        }
    }
}

#[test]
fn late_report_does_not_revert_the_desired_state() {
    let stopping = instance(DesiredState::Stopped, InstanceState::Stopping);
    assert!(next(&stopping, &report(ReportedState::Pod(PodState::Running))).is_none());
    let starting = instance(DesiredState::Running, InstanceState::Starting);
    assert!(next(&starting, &report(ReportedState::Pod(PodState::Stopped))).is_none());
}

#[test]
fn report_of_an_older_generation_counts_only_as_gone() {
    let now = instance(DesiredState::Running, InstanceState::Starting);
    let mut old = report(ReportedState::Pod(PodState::Running));
    old.generation = Some(1);
    assert!(next(&now, &old).is_none());
    let gone = instance(DesiredState::Gone, InstanceState::Destroying);
    let mut told = report(ReportedState::Gone);
    told.generation = Some(1);
    assert!(matches!(apply_report(&gone, &told), WriteDecision::Delete));
    // A crash on the way out is not a reason to bring it back.
    assert!(next(&gone, &report(ReportedState::Pod(PodState::Waiting))).is_none());
}

fn pushed(state: InstanceState) -> Report {
    let mut told = report(ReportedState::State(state));
    told.generation = None;
    told
}

#[test]
fn pushed_end_is_an_end_by_the_restart_policy() {
    let ended = pushed(InstanceState::Terminated);
    for (restart, is_last) in [
        (RestartPolicy::OnFailure, true),
        (RestartPolicy::Never, true),
        (RestartPolicy::Always, false),
    ] {
        let mut now = instance(DesiredState::Running, InstanceState::Running);
        now.spec.restart = restart;
        let next = next(&now, &ended).unwrap();
        assert_eq!(next.state, InstanceState::Terminated, "{restart}");
        assert_eq!(next.node.as_deref(), Some("n1"), "it is not placed again");
        assert_eq!(next.has_ended(), is_last, "{restart}");
    }
    let going = instance(DesiredState::Gone, InstanceState::Destroying);
    assert!(matches!(
        apply_report(&going, &ended),
        WriteDecision::Delete
    ));
    let stopping = instance(DesiredState::Stopped, InstanceState::Stopping);
    assert_eq!(
        next(&stopping, &ended).unwrap().state,
        InstanceState::Stopped
    );
}

#[test]
fn failure_is_final_once_the_node_has_given_up() {
    let mut failed = report(ReportedState::Pod(PodState::Failed));
    failed.reason = "no such program".into();
    let retried = instance(DesiredState::Running, InstanceState::Starting);
    let retried = next(&retried, &failed).unwrap();
    assert!(!retried.has_ended(), "its restart policy is on-failure");
    failed.given_up_at_start = Some(0);
    let last = next(&retried, &failed).unwrap();
    assert!(last.has_ended());
    // It was started again before the node reported that it had given up.
    let mut again = instance(DesiredState::Running, InstanceState::Starting);
    again.starts = 1;
    assert!(!next(&again, &failed).unwrap().has_ended());
    // What happens to it afterwards is a state of its own.
    let starting = report(ReportedState::Pod(PodState::Starting));
    let starting = next(&last, &starting).unwrap();
    assert!(!starting.given_up && !starting.has_ended());
    let elsewhere = unassign(&last, &lost());
    assert!(!elsewhere.given_up, "another node may start it");
    let stored = serde_json::to_value(&retried).unwrap();
    assert_eq!(stored.get("givenUp"), None);
    let read: Instance = serde_json::from_value(stored).unwrap();
    assert_eq!(read, retried, "a record of an older release is read");
}

#[test]
fn late_push_does_not_revert_the_desired_state() {
    use InstanceState as I;
    let after = |desired_state, state, push| next(&instance(desired_state, state), &pushed(push));
    assert!(after(DesiredState::Stopped, I::Stopping, I::Running).is_none());
    let runs_on = after(DesiredState::Stopped, I::Stopped, I::Running).unwrap();
    assert_eq!(runs_on.state, I::Stopping, "its node is to stop it");
    assert!(after(DesiredState::Running, I::Starting, I::Stopped).is_none());
    let crashed = after(DesiredState::Stopped, I::Stopping, I::Crashed).unwrap();
    assert_eq!(crashed.state, I::Stopped);
}

#[test]
fn waits_begin_from_the_shortest_after_a_good_run() {
    let mut now = instance(DesiredState::Running, InstanceState::Running);
    (now.restarts, now.changed_at_ms) = (7, now_ms());
    let crash = pushed(InstanceState::Crashed);
    assert_eq!(next(&now, &crash).unwrap().restarts, 7);
    now.changed_at_ms -= 600_000;
    assert_eq!(next(&now, &crash).unwrap().restarts, 0);
}

#[test]
fn gone_report_of_an_earlier_assignment_is_ignored() {
    for generation in 0..=2 {
        let mut told = report(ReportedState::Gone);
        told.generation = Some(generation);
        for desired_state in [DesiredState::Running, DesiredState::Stopped] {
            let now = instance(desired_state, InstanceState::Scheduled);
            assert!(next(&now, &told).is_none());
        }
    }
}

#[test]
fn pushed_crash_is_reported_as_crash() {
    let now = instance(DesiredState::Running, InstanceState::Running);
    for (reason, shown) in [
        ("exit 3", "crashed: exit 3"),
        ("crashed: exit 3", "crashed: exit 3"),
        ("", "crashed: it ended"),
    ] {
        let mut told = report(ReportedState::State(InstanceState::Crashed));
        told.reason = reason.into();
        let crashed = next(&now, &told).unwrap();
        assert_eq!(crashed.state, InstanceState::Crashed);
        assert_eq!(crashed.description, shown);
    }
}

#[test]
fn texts_of_nodes_are_kept_short_and_plain() {
    let mut told = report(ReportedState::Pod(PodState::Failed));
    told.reason = format!("\u{1b}[31m{}", "x".repeat(5000));
    let failed = next(
        &instance(DesiredState::Running, InstanceState::Starting),
        &told,
    )
    .unwrap();
    assert_eq!(failed.description.chars().count(), 1024);
    assert!(!failed.description.contains('\u{1b}'));
}

#[test]
fn ended_instance_is_not_restarted_on_another_node() {
    use InstanceState as I;
    let after = |desired_state, state, restart| {
        let mut now = instance(desired_state, state);
        now.spec.restart = restart;
        let next = unassign(&now, &lost());
        assert_eq!(next.node, None);
        (next.desired_state, next.state)
    };
    let (always, never) = (RestartPolicy::Always, RestartPolicy::Never);
    let (run, rest) = (DesiredState::Running, DesiredState::Stopped);
    assert_eq!(after(run, I::Running, always), (run, I::Scheduling));
    assert_eq!(after(run, I::Crashed, always), (run, I::Scheduling));
    assert_eq!(after(run, I::Scheduled, never), (run, I::Scheduling));
    assert_eq!(after(run, I::Running, never), (rest, I::Failed));
    assert_eq!(after(run, I::Crashed, never), (rest, I::Crashed));
    assert_eq!(after(run, I::Terminated, always), (rest, I::Terminated));
    assert_eq!(after(rest, I::Stopped, always), (rest, I::Stopped));
}

fn lost() -> StateReason {
    StateReason {
        full: "its node n1 was lost".into(),
        limited: "its node was lost".into(),
    }
}
