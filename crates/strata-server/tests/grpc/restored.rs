//! Records that were restored from a backup may have an instance on another
//! node than the one that runs it by now: nothing starts before all nodes have
//! reported what they have, but what runs where the records have it.

use std::sync::Arc;
use std::time::Duration;

use strata_api::strata::v1::{
    self, InstanceReport, NodeMessage, Reported, ServerMessage, node_message, server_message,
};
use strata_server::core::Principal;
use strata_server::{AdoptOptions, adopt_restored_store};
use strata_store::{Memory, Store as _, Transaction};
use strata_types::Role;

use crate::nodes::{Link, follow_as, hello};
use crate::world::World;

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// In which what is held would have been sent.
const HELD: Duration = Duration::from_millis(500);

/// Of a backup: `web` and `db` on n1, beside n2.
async fn restored() -> World {
    let store = Memory::new();
    let put = |key: String, value: serde_json::Value| {
        let put = Transaction::new().put(key, value.to_string());
        let store = store.clone();
        async move { store.commit(put).await.unwrap() }
    };
    for (number, node) in ["n1", "n2"].into_iter().enumerate() {
        let record = serde_json::json!({
            "name": node, "subnet": format!("10.42.{number}.0/24"), "condition": "ready",
            "createdAtMs": 0, "changedAtMs": 0, "follows": true, "holdsLeases": true,
        });
        put(format!("node/{node}"), record).await;
    }
    for id in ["web", "db"] {
        let record = serde_json::json!({
            "id": id, "name": id, "project": "default", "wanted": "running",
            "spec": { "type": "CONTAINER", "uri": "oci:/x" }, "generation": 1,
            "state": "RUNNING", "node": "n1", "epoch": 1, "createdAtMs": 0, "changedAtMs": 0,
        });
        put(format!("instance/{id}"), record).await;
    }
    let how = AdoptOptions {
        take_over: true,
        revoke: Vec::new(),
    };
    let to = Arc::new(store.clone());
    adopt_restored_store(to, &how).await.unwrap();
    World::over_store(tempfile::tempdir().unwrap(), store).await
}

async fn connect(world: &World, node: &str) -> Link {
    let hello = v1::Hello {
        holds_leases: true,
        ..hello()
    };
    let own = world.issue(node, Role::Node);
    follow_as(world, &own, hello).await.unwrap()
}

async fn report(link: &Link, id: &str, epoch: u64, state: v1::PodState) {
    let report = InstanceReport {
        id: id.into(),
        generation: 1,
        epoch,
        state: state.into(),
        ..InstanceReport::default()
    };
    assert!(link.say(node_message::Message::Report(report)).await);
}

async fn reported(link: &Link) {
    let done = node_message::Message::Reported(Reported {});
    assert!(link.say(done).await);
}

/// The next message that is about instances; none if none comes in time.
async fn next(link: &mut Link, within: Duration) -> Option<server_message::Message> {
    use server_message::Message::{Assignment, Complete, Keep, Withdrawal};
    let next = async {
        loop {
            let ServerMessage { message } = link.from_server.message().await.unwrap().unwrap();
            if let Some(about @ (Assignment(_) | Complete(_) | Keep(_) | Withdrawal(_))) = message {
                return about;
            }
        }
    };
    tokio::time::timeout(within, next).await.ok()
}

#[tokio::test]
async fn instance_that_may_run_elsewhere_is_assigned_when_all_nodes_have_reported() {
    use server_message::Message::{Assignment, Complete, Withdrawal};
    let world = restored().await;
    let mut n1 = connect(&world, "n1").await;
    // It runs `db` as the records have it, and `web` no more.
    report(&n1, "db", 1, v1::PodState::Running).await;
    report(&n1, "web", 1, v1::PodState::Stopped).await;
    reported(&n1).await;
    let Some(Assignment(db)) = next(&mut n1, WAIT_TIMEOUT).await else {
        panic!("what runs there goes on");
    };
    assert_eq!(db.id, "db");
    assert_eq!(next(&mut n1, HELD).await, None, "n2 may run it");
    // And it does, by a placement since the backup.
    let mut n2 = connect(&world, "n2").await;
    report(&n2, "web", 7, v1::PodState::Running).await;
    reported(&n2).await;
    let withdrawn = loop {
        match next(&mut n2, WAIT_TIMEOUT).await {
            Some(Withdrawal(withdrawn)) => break withdrawn,
            Some(Complete(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((&*withdrawn.id, withdrawn.kill), ("web", false));
    assert!(withdrawn.epoch >= 7, "{withdrawn:?}");
    // n2 was heard from; but n1 waits until it has ended there.
    tokio::time::sleep(HELD).await;
    while let Some(message) = next(&mut n1, HELD).await {
        assert!(!matches!(message, Assignment(_)), "{message:?}");
    }
    report(&n2, "web", 7, v1::PodState::Unspecified).await;
    loop {
        match next(&mut n1, WAIT_TIMEOUT).await {
            Some(Assignment(web)) => {
                assert_eq!(web.id, "web");
                break;
            }
            Some(_) => {}
            None => panic!("it is assigned in the end"),
        }
    }
    let message = Some(node_message::Message::Load(v1::NodeLoad::default()));
    n1.to_server.send(NodeMessage { message }).await.unwrap();
}

/// Placements are counted: a node that reports the last number there is would
/// leave none for the next placement, on whichever node.
#[tokio::test]
async fn epoch_that_a_hostile_node_reports_leaves_room_for_more() {
    use server_message::Message::{Assignment, Withdrawal};
    let world = restored().await;
    let mut n2 = connect(&world, "n2").await;
    report(&n2, "web", u64::MAX, v1::PodState::Running).await;
    reported(&n2).await;
    while !matches!(next(&mut n2, WAIT_TIMEOUT).await, Some(Withdrawal(_))) {}
    let admin = Principal {
        name: "ann".into(),
        role: Role::Admin,
        projects: None,
    };
    let web = world.core.instance(&admin, None, "web").unwrap();
    assert!((1..1 << 32).contains(&web.epoch), "{web:?}");
    // It is waited for as any other, and then the instance goes on.
    report(&n2, "web", u64::MAX, v1::PodState::Unspecified).await;
    let mut n1 = connect(&world, "n1").await;
    reported(&n1).await;
    let assigned = loop {
        match next(&mut n1, WAIT_TIMEOUT).await {
            Some(Assignment(one)) if one.id == "web" => break one,
            Some(_) => {}
            None => panic!("it is assigned"),
        }
    };
    assert_eq!(assigned.epoch, web.epoch);
}
