//! A withdrawal of what another node may start by now: it is killed, however
//! long its specification gives it to end.

use std::time::{Duration, Instant};

use strata_testkit::pods::script;
use strata_testkit::v1::server_message::Message;
use strata_testkit::v1::{PodSpec, PodState, Welcome, Withdrawal};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::fake_server::{CONTROL_PLANE, Conversation};
use crate::agent::{World, run, world};

/// Far more than a busy host takes to kill, and less than any grace period here.
const KILL_LIMIT: Duration = Duration::from_secs(10);

fn kill(id: &str) -> Withdrawal {
    Withdrawal {
        id: id.into(),
        kill: true,
        ..Withdrawal::default()
    }
}

/// An instance that ignores the signal to end, and has a minute to do so.
async fn stubborn() -> (World, Conversation) {
    let mut world = world().await;
    let server = world.server.next().await;
    server.welcome().await;
    let stubborn = "trap '' TERM; touch /ready; while :; do sleep 0.1; done";
    let stubborn = PodSpec {
        stop_grace_ms: Some(60_000),
        ..script("web", &world.image, stubborn)
    };
    server.assign(&run("web", stubborn)).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    let ready = "until test -e /ready; do sleep 0.1; done; echo yes";
    assert_eq!(world.node.says("web", ready).await.trim(), "yes");
    (world, server)
}

async fn is_gone(server: &Conversation) {
    let begin = Instant::now();
    server.becomes("web", PodState::Unspecified).await;
    let took = begin.elapsed();
    assert!(took < KILL_LIMIT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_that_another_node_may_start_is_given_no_time_to_end() {
    let (_world, server) = stubborn().await;
    server.say(Message::Withdrawal(kill("web"))).await;
    is_gone(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_ends_a_graceful_withdrawal_that_is_under_way() {
    let (world, server) = stubborn().await;
    server.withdraw("web").await;
    wait_for("its end to begin", TEST_TIMEOUT, async || {
        let pod = world.node.pod("web").await.map_err(|e| e.to_string())?;
        let ends = [PodState::Stopping, PodState::Destroying];
        holds(ends.contains(&pod.state())).map_err(|_| format!("{pod:?}"))
    })
    .await;
    server.say(Message::Withdrawal(kill("web"))).await;
    is_gone(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_welcome_withdraws_ends_without_another_message() {
    let (mut world, server) = stubborn().await;
    server.end().await;
    let server = world.server.next().await;
    server
        .say(Message::Welcome(Welcome {
            subnet: "10.42.77.0/24".into(),
            range: "10.42.0.0/16".into(),
            lease_ms: 10_000,
            alone: true,
            control_plane: CONTROL_PLANE.into(),
            withdrawn: vec![kill("web")],
            ..Welcome::default()
        }))
        .await;
    is_gone(&server).await;
}
