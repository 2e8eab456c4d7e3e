//! What follows from reports, state by state.

use strata_types::Label;
use strata_types::instance::InstanceSpec;

use super::*;

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn instance(wanted: Wanted, state: InstanceState) -> Instance {
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
        wanted,
        generation: 2,
        starts: 0,
        state,
        description: "as it was".into(),
        limited_description: None,
        node: Some("n1".into()),
        epoch: 0,
        leaving: Vec::new(),
        after: Vec::new(),
        address: None,
        restarts: 0,
        exit_code: None,
        healthy: None,
        refusals: Default::default(),
        owner: "me".into(),
        created_at_ms: 0,
        changed_at_ms: 0,
    }
}

fn report(told: Told) -> Report {
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
    }
}

fn next(now: &Instance, report: &Report) -> Option<Instance> {
    match follow(now, report) {
        Verdict::Put(next) => Some(*next),
        Verdict::Keep | Verdict::Delete => None,
    }
}

#[test]
fn states_of_pods_become_states_of_instances() {
    use InstanceState as I;
    use PodState as P;
    let running = instance(Wanted::Running, I::Scheduled);
    for (pod, code, state) in [
        (P::Starting, None, I::Starting),
        (P::Running, None, I::Running),
        (P::Waiting, Some(3), I::Crashed),
        (P::Exited, Some(3), I::Crashed),
        (P::Exited, Some(0), I::Terminated),
        (P::Failed, None, I::Failed),
    ] {
        let mut told = report(Told::Pod(pod));
        told.exit_code = code;
        assert_eq!(next(&running, &told).unwrap().state, state, "{pod:?}");
    }
    let mut crash = report(Told::Pod(PodState::Exited));
    crash.exit_code = Some(3);
    let crashed = next(&running, &crash).unwrap();
    assert_eq!(crashed.description, "crashed: exit 3");
}

#[test]
fn a_report_never_touches_what_was_asked_for() {
    let now = instance(Wanted::Running, InstanceState::Starting);
    for pod in PodState::ALL {
        if let Some(next) = next(&now, &report(Told::Pod(pod))) {
            assert_eq!(next.spec, now.spec, "{pod:?}");
            assert_eq!((next.wanted, next.generation), (now.wanted, now.generation));
        }
    }
}

#[test]
fn what_was_on_its_way_does_not_take_a_wish_back() {
    let stopping = instance(Wanted::Stopped, InstanceState::Stopping);
    assert!(next(&stopping, &report(Told::Pod(PodState::Running))).is_none());
    let starting = instance(Wanted::Running, InstanceState::Starting);
    assert!(next(&starting, &report(Told::Pod(PodState::Stopped))).is_none());
}

#[test]
fn of_an_older_generation_only_the_end_counts() {
    let now = instance(Wanted::Running, InstanceState::Starting);
    let mut old = report(Told::Pod(PodState::Running));
    old.generation = Some(1);
    assert!(next(&now, &old).is_none());
    let gone = instance(Wanted::Gone, InstanceState::Destroying);
    let mut told = report(Told::Gone);
    told.generation = Some(1);
    assert!(matches!(follow(&gone, &told), Verdict::Delete));
    // A crash on the way out is not a reason to bring it back.
    assert!(next(&gone, &report(Told::Pod(PodState::Waiting))).is_none());
}

fn pushed(state: InstanceState) -> Report {
    let mut told = report(Told::State(state));
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
        let mut now = instance(Wanted::Running, InstanceState::Running);
        now.spec.restart = restart;
        let next = next(&now, &ended).unwrap();
        assert_eq!(next.state, InstanceState::Terminated, "{restart}");
        assert_eq!(next.node.as_deref(), Some("n1"), "it is not placed again");
        assert_eq!(next.has_ended(), is_last, "{restart}");
    }
    let going = instance(Wanted::Gone, InstanceState::Destroying);
    assert!(matches!(follow(&going, &ended), Verdict::Delete));
    let stopping = instance(Wanted::Stopped, InstanceState::Stopping);
    assert_eq!(
        next(&stopping, &ended).unwrap().state,
        InstanceState::Stopped
    );
}

#[test]
fn late_push_does_not_undo_what_was_asked_for() {
    use InstanceState as I;
    let after = |wanted, state, push| next(&instance(wanted, state), &pushed(push));
    assert!(after(Wanted::Stopped, I::Stopping, I::Running).is_none());
    let runs_on = after(Wanted::Stopped, I::Stopped, I::Running).unwrap();
    assert_eq!(runs_on.state, I::Stopping, "its node is to stop it");
    assert!(after(Wanted::Running, I::Starting, I::Stopped).is_none());
    let crashed = after(Wanted::Stopped, I::Stopping, I::Crashed).unwrap();
    assert_eq!(crashed.state, I::Stopped);
}

#[test]
fn waits_begin_from_the_shortest_after_a_good_run() {
    let mut now = instance(Wanted::Running, InstanceState::Running);
    (now.restarts, now.changed_at_ms) = (7, now_ms());
    let crash = pushed(InstanceState::Crashed);
    assert_eq!(next(&now, &crash).unwrap().restarts, 7);
    now.changed_at_ms -= 600_000;
    assert_eq!(next(&now, &crash).unwrap().restarts, 0);
}

#[test]
fn what_a_node_had_before_it_was_given_it_again_does_not_count() {
    for generation in 0..=2 {
        let mut told = report(Told::Gone);
        told.generation = Some(generation);
        for wanted in [Wanted::Running, Wanted::Stopped] {
            let now = instance(wanted, InstanceState::Scheduled);
            assert!(next(&now, &told).is_none());
        }
    }
}

#[test]
fn a_crash_that_is_pushed_is_told_as_one() {
    let now = instance(Wanted::Running, InstanceState::Running);
    for (reason, shown) in [
        ("exit 3", "crashed: exit 3"),
        ("crashed: exit 3", "crashed: exit 3"),
        ("", "crashed: it ended"),
    ] {
        let mut told = report(Told::State(InstanceState::Crashed));
        told.reason = reason.into();
        let crashed = next(&now, &told).unwrap();
        assert_eq!(crashed.state, InstanceState::Crashed);
        assert_eq!(crashed.description, shown);
    }
}

#[test]
fn texts_of_nodes_are_kept_short_and_plain() {
    let mut told = report(Told::Pod(PodState::Failed));
    told.reason = format!("\u{1b}[31m{}", "x".repeat(5000));
    let failed = next(&instance(Wanted::Running, InstanceState::Starting), &told).unwrap();
    assert_eq!(failed.description.chars().count(), 1024);
    assert!(!failed.description.contains('\u{1b}'));
}

#[test]
fn what_has_ended_is_not_begun_anew_elsewhere() {
    use InstanceState as I;
    let after = |wanted, state, restart| {
        let mut now = instance(wanted, state);
        now.spec.restart = restart;
        let next = uproot(&now, &lost());
        assert_eq!(next.node, None);
        (next.wanted, next.state)
    };
    let (always, never) = (RestartPolicy::Always, RestartPolicy::Never);
    let (run, rest) = (Wanted::Running, Wanted::Stopped);
    assert_eq!(after(run, I::Running, always), (run, I::Scheduling));
    assert_eq!(after(run, I::Crashed, always), (run, I::Scheduling));
    assert_eq!(after(run, I::Scheduled, never), (run, I::Scheduling));
    assert_eq!(after(run, I::Running, never), (rest, I::Failed));
    assert_eq!(after(run, I::Crashed, never), (rest, I::Crashed));
    assert_eq!(after(run, I::Terminated, always), (rest, I::Terminated));
    assert_eq!(after(rest, I::Stopped, always), (rest, I::Stopped));
}

fn lost() -> Why {
    Why {
        full: "its node n1 was lost".into(),
        limited: "its node was lost".into(),
    }
}
