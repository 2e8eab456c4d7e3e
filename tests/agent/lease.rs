//! A node that hears nothing of its server, and what it does about it.

use std::time::{Duration, Instant};

use strata_testkit::pods::idle;
use strata_testkit::v1::server_message::Message;
use strata_testkit::v1::{Assignment, PodState};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::fake_server::Conversation;
use crate::agent::{World, run, world};

/// Long enough for a pod to start on a machine that is busy with other tests.
const LEASE: u32 = 6000;

/// A node with peers and an instance that runs under a short lease.
async fn leased(alone: bool, peers: bool) -> (World, Conversation) {
    let mut world = world().await;
    let server = world.server.next().await;
    server.welcome_with(LEASE, alone).await;
    if peers {
        server.peers(&[("192.0.2.9", "10.42.9.0/24")]).await;
    }
    server.assign(&run("web", idle("web", &world.image))).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    (world, server)
}

/// It still runs after several leases.
async fn runs_on(world: &World) {
    let pid = world.node.pod("web").await.expect("it is there").process_id;
    let begin = Instant::now();
    wait_for("two leases to pass", TEST_TIMEOUT, async || {
        let pod = world.node.pod("web").await.expect("it is there");
        assert_eq!((pod.state(), pod.process_id), (PodState::Running, pid));
        holds(begin.elapsed() > 2 * Duration::from_millis(LEASE.into()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_costs_the_instances_and_brings_them_back() {
    let (mut world, _server) = leased(true, true).await;
    runs_on(&world).await;
    world.server.beats(false);
    world.node.pod_becomes("web", PodState::Stopped).await;
    // It is the node that comes again, and is told what holds now.
    world.server.beats(true);
    let server = world.server.latest().await;
    let report = server.becomes("web", PodState::Stopped).await;
    assert!(report.reason.contains("without a server"), "{report:?}");
    server.welcome_with(LEASE, true).await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_is_silent_for_half_of_the_lease_is_given_up() {
    let (mut world, _silent) = leased(true, true).await;
    let pid = world.node.pod("web").await.unwrap().process_id;
    // As one whose packets are lost: nothing comes, and nothing is closed.
    world.server.beats(false);
    let server = world.server.next().await;
    world.server.beats(true);
    server.welcome_with(LEASE, true).await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.complete().await;
    runs_on(&world).await;
    assert_eq!(world.node.pod("web").await.unwrap().process_id, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_connection_to_one_of_several_servers_does_not_extend_the_lease() {
    let (mut world, _server) = leased(false, true).await;
    world.server.die().await;
    world.node.pod_becomes("web", PodState::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_keep_running_when_no_server_can_reschedule_them() {
    let (mut world, _server) = leased(true, true).await;
    world.server.die().await;
    runs_on(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_keep_running_without_other_nodes() {
    let (world, _server) = leased(false, false).await;
    world.server.beats(false);
    runs_on(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_keep_running_after_a_farewell_across_a_daemon_restart() {
    let (mut world, server) = leased(false, true).await;
    server.say(Message::Farewell(Default::default())).await;
    server.end().await;
    // It has heard that when it comes again, and is not taken in any more.
    let _unanswered = world.server.next().await;
    world.server.die().await;
    runs_on(&world).await;
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    runs_on(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_peers_count_as_peers() {
    let (world, server) = leased(true, false).await;
    server.peers(&[]).await;
    world.server.beats(false);
    world.node.pod_becomes("web", PodState::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_starts_without_its_server_has_one_lease_to_find_it() {
    let (mut world, _server) = leased(false, true).await;
    world.daemon.kill();
    world.server.die().await;
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    world.node.pod_becomes("web", PodState::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_lost_in_a_reboot_wait_for_the_server() {
    let (mut world, _server) = leased(true, true).await;
    let pid = world.node.pod("web").await.unwrap().process_id;
    world.daemon.kill();
    world.server.die().await;
    // As after a crash of the machine: nothing of it runs.
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let pod = world.node.pod("web").await.unwrap();
    assert_eq!(pod.state(), PodState::Stopped, "{pod:?}");
    world.server.listen();
    let server = world.server.next().await;
    server.welcome_with(LEASE, true).await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
}

/// It runs, as the same process, for this long.
async fn runs_for(world: &World, time: Duration) {
    let pid = world.node.pod("web").await.expect("it is there").process_id;
    let begin = Instant::now();
    wait_for("time to pass", TEST_TIMEOUT, async || {
        let pod = world.node.pod("web").await.expect("it is there");
        assert_eq!((pod.state(), pod.process_id), (PodState::Running, pid));
        holds(begin.elapsed() > time)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_instance_that_becomes_exclusive_is_not_ended_by_a_lease_that_was_not_renewed() {
    let lease = Duration::from_secs(3);
    let mut world = world().await;
    let server = world.server.next().await;
    server.welcome_with(3000, true).await;
    server.peers(&[("192.0.2.9", "10.42.9.0/24")]).await;
    // The shim is sent a lease, and from the withdrawal on no other.
    server
        .assign(&run("first", idle("first", &world.image)))
        .await;
    server.becomes("first", PodState::Running).await;
    server.withdraw("first").await;
    server.becomes("first", PodState::Unspecified).await;
    let available = Assignment {
        available: true,
        ..run("web", idle("web", &world.image))
    };
    server.assign(&available).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    runs_for(&world, lease * 3 / 2).await;
    let exclusive = Assignment {
        available: false,
        ..available
    };
    server.assign(&exclusive).await;
    runs_for(&world, lease).await;
    // It is under the lease.
    world.server.beats(false);
    world.node.pod_becomes("web", PodState::Stopped).await;
}
