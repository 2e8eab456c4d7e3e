//! Whose an instance is: nothing is destroyed because a server does not name
//! it.

use strata_api::strata::v1::server_message::Message;
use strata_api::strata::v1::{Keep, TakeOver};
use strata_testkit::pods::idle;
use strata_testkit::v1::{Pod, PodState};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::fake_server::{CONTROL_PLANE, Conversation};
use crate::agent::{World, run, world, world_with};

/// Ends a conversation; the next one, once the node has reported all it has.
async fn next(world: &mut World, before: Conversation) -> Conversation {
    before.end().await;
    let server = world.server.next().await;
    server.reported().await;
    server
}

/// Waits until the node has taken in all that was said so far.
async fn settled(world: &World, server: &Conversation, mark: &str) {
    server.assign(&run(mark, idle(mark, &world.image))).await;
    server.becomes(mark, PodState::Running).await;
}

fn same_process(before: &Pod, now: &Pod) {
    assert_eq!(now.state(), PodState::Running, "{now:?}");
    assert_eq!((&now.id, now.process_id), (&before.id, before.process_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_of_another_control_plane_is_left_as_it_is() {
    let mut world = world_with("[node]\norphan_grace_seconds = 30\n").await;
    let server = world.followed().await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.becomes("web", PodState::Running).await;
    let before = world.node.pod("web").await.unwrap();

    // A server with an empty store knows of nothing.
    let server = next(&mut world, server).await;
    let report = server.latest("web").unwrap();
    assert_eq!(report.control_plane, CONTROL_PLANE);
    server.welcome_of("another").await;
    server.complete().await;
    settled(&world, &server, "mark").await;
    same_process(&before, &world.node.pod("web").await.unwrap());
    // The restart of the daemon changes nothing about it.
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let server = world.server.next().await;
    server.reported().await;
    server.welcome_of("another").await;
    server.complete().await;
    settled(&world, &server, "second-mark").await;
    same_process(&before, &world.node.pod("web").await.unwrap());

    // What the other one says of it stops it at most.
    server.withdraw("web").await;
    server.becomes("web", PodState::Stopped).await;
    let stopped = world.node.pod("web").await.unwrap();
    assert_eq!(stopped.id, before.id, "it was not destroyed");

    // The right one is back: it is its own.
    let server = next(&mut world, server).await;
    server.welcome().await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    let again = world.node.pod("web").await.unwrap();
    assert_eq!(again.id, before.id, "with all it has written");

    // Only when people say so it goes.
    let server = next(&mut world, server).await;
    server.welcome_of("another").await;
    server.complete().await;
    let destroy = false;
    server.say(Message::TakeOver(TakeOver { destroy })).await;
    server.becomes("web", PodState::Stopped).await;
    let destroy = true;
    server.say(Message::TakeOver(TakeOver { destroy })).await;
    server.becomes("web", PodState::Unspecified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_without_a_record_rests_before_it_is_destroyed() {
    let mut world = world().await;
    let server = world.followed().await;
    let web = run("web", idle("web", &world.image));
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    let before = world.node.pod("web").await.unwrap();
    let server = next(&mut world, server).await;
    server.welcome().await;
    server.complete().await;
    server.becomes("web", PodState::Stopped).await;
    // The record was found again: nothing of it is lost.
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    let again = world.node.pod("web").await.unwrap();
    assert_eq!(again.id, before.id, "it is the same pod");

    // And what people forget goes at once.
    let server = next(&mut world, server).await;
    server.welcome().await;
    server.complete().await;
    server.becomes("web", PodState::Stopped).await;
    let destroy = true;
    server.say(Message::TakeOver(TakeOver { destroy })).await;
    server.becomes("web", PodState::Unspecified).await;
    let node = &world.node;
    wait_for("nothing to be left", TEST_TIMEOUT, async || {
        holds(node.pods().await.unwrap().is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_instance_is_destroyed_after_the_grace_period() {
    let mut world = world_with("[node]\norphan_grace_seconds = 2\n").await;
    let server = world.followed().await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.becomes("web", PodState::Running).await;
    let server = next(&mut world, server).await;
    server.welcome().await;
    server.complete().await;
    server.becomes("web", PodState::Stopped).await;
    server.becomes("web", PodState::Unspecified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_whose_record_cannot_be_read_is_kept() {
    let mut world = world_with("[node]\norphan_grace_seconds = 0\n").await;
    let server = world.followed().await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.becomes("web", PodState::Running).await;
    let before = world.node.pod("web").await.unwrap();
    let server = next(&mut world, server).await;
    assert!(server.hello().await.keeps);
    server.welcome().await;
    server.say(Message::Keep(Keep { id: "web".into() })).await;
    server
        .say(Message::Keep(Keep {
            id: "no-such".into(),
        }))
        .await;
    server.complete().await;
    settled(&world, &server, "mark").await;
    same_process(&before, &world.node.pod("web").await.unwrap());
}
