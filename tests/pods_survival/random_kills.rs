//! The daemon dies at any time, whatever it is doing.

use std::time::Duration;

use strata_testkit::rounds;

use crate::pods_survival::world::{PodAction, World};

/// All actions take less.
const LATEST_MICROSECONDS: u64 = 120_000;

/// Numbers that look like chance and are the same each time.
fn random(round: u64) -> u64 {
    let mut x = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 31;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 29)
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_at_any_time_leave_each_pod_whole_or_gone() {
    let mut world = World::new().await;
    world.prepare(PodAction::Stop).await;
    world.clear().await;
    let before = world.baseline().await;
    for round in 0..rounds(25, 100) {
        let action = [
            PodAction::Create,
            PodAction::Start,
            PodAction::Stop,
            PodAction::Destroy,
        ][(round % 4) as usize];
        world.prepare(action).await;
        let delay = Duration::from_micros(random(round) % LATEST_MICROSECONDS);
        // Not to wait for anything: to die at another place each time.
        let answered = tokio::select! {
            answer = world.attempt(action) => answer.is_ok(),
            () = tokio::time::sleep(delay) => false,
        };
        world.again().await;
        world.check(action, answered).await;
        world.clear().await;
        world.is_as(&before).await;
    }
    world.serves("beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_half_way_to_everything_come_to_rest() {
    const PODS: usize = 12;
    let mut world = World::new().await;
    world.prepare(PodAction::Stop).await;
    world.clear().await;
    let before = world.baseline().await;
    for round in 0..4 {
        let mut actions = tokio::task::JoinSet::new();
        for i in 0..PODS {
            let (node, mut spec) = (world.node.clone(), world.spec());
            spec.name = format!("many-{i}");
            spec.ports.clear();
            actions.spawn(async move {
                let name = spec.name.clone();
                let _ = node.run_pod(spec).await;
                if i % 3 == 1 {
                    let _ = node.stop_pod(&name).await;
                }
                if i % 3 == 2 {
                    let _ = node.destroy_pod(&name).await;
                }
            });
        }
        let delay = Duration::from_millis(100 + random(round) % 900);
        let all = async { while actions.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(delay, all).await;
        world.again().await;
        actions.shutdown().await;
        for pod in world.settled().await {
            let name = pod.spec.map(|spec| spec.name).unwrap_or_default();
            if pod.state == strata_testkit::v1::PodState::Running as i32 {
                world.serves(&name).await;
            }
            if name != "beside" {
                world.node.start_pod(&name).await.unwrap();
                world.serves(&name).await;
                world.node.destroy_pod(&name).await.unwrap();
            }
        }
        world.clear().await;
        world.is_as(&before).await;
    }
}
