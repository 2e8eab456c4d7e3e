//! The daemon dies at each step of what it does to a pod.

use strata_testkit::faults::{Step, TracedCalls, Tracer};
use strata_testkit::rounds;

use crate::pods_survival::world::{PodAction, World};

/// Does it once while the daemon is killed at a step; where it was struck.
async fn strike(world: &mut World, action: PodAction, step: Option<Step>) -> TracedCalls {
    world.prepare(action).await;
    let (pid, dir) = (world.daemon.pid(), world.daemon.data_dir());
    let tracer = Tracer::attach(pid, &dir, step);
    let answered = world.attempt(action).await.is_ok();
    let seen = tracer.finish();
    world.again().await;
    world.check(action, answered).await;
    world.clear().await;
    seen
}

#[allow(clippy::print_stderr)]
async fn dies_at_every_step_of(action: PodAction) {
    let mut world = World::new().await;
    // The first brings up what all pods share.
    world.prepare(PodAction::Stop).await;
    world.clear().await;
    let before = world.baseline().await;
    let seen = strike(&mut world, action, None).await;
    world.is_as(&before).await;
    let steps = seen.steps(rounds(2, usize::MAX));
    let mut struck = 0;
    for step in &steps {
        let seen = strike(&mut world, action, Some(step.clone())).await;
        struck += usize::from(seen.struck.is_some());
        world.is_as(&before).await;
    }
    let all: usize = seen.counts.values().sum();
    eprintln!(
        "{action:?}: died at {struck} of {} steps of {all}: {:?}",
        steps.len(),
        seen.counts
    );
    // What is done may differ by a few calls from one time to the next.
    let missed = steps.len() - struck;
    assert!(
        missed <= 3 + steps.len() / 10,
        "{struck} of {}",
        steps.len()
    );
    world.serves("beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_being_created_is_whole_or_gone() {
    dies_at_every_step_of(PodAction::Create).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_being_started_runs_or_does_not() {
    dies_at_every_step_of(PodAction::Start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_being_stopped_runs_or_does_not() {
    dies_at_every_step_of(PodAction::Stop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_being_destroyed_is_whole_or_gone() {
    dies_at_every_step_of(PodAction::Destroy).await;
}
