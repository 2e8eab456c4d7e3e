//! Nodes that speak only the published `scheduler.NodeService`: registered,
//! heard, placed on, gone; and what a node may say.

use strata_testkit::cluster::SeedStream;
use strata_testkit::controller::{self, Status as Pushed};
use strata_testkit::scheduler::{NodeRegisterRequest, Resource, ResourceSummary, Status};
use strata_testkit::{Code, field_of, holds, refused, wait_for};

use crate::control::{TEST_TIMEOUT, cluster};

fn pushed(id: &str, status: Pushed, description: &str) -> controller::InstanceStatus {
    controller::InstanceStatus {
        id: id.into(),
        status: status.into(),
        description: description.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_the_published_api_is_placed_on_and_pushes_status() {
    let cluster = cluster(0).await;
    let node = cluster.seed_node("seed-1").await;
    let first = node.register().await.unwrap();
    assert_eq!((first.code, first.subnet.as_str()), (0, "10.42.0.0/24"));
    assert_eq!(node.register().await.unwrap().subnet, first.subnet);
    let stream = node.stream(node.status(4000)).await;
    cluster.node_is("seed-1", "READY").await;
    let mut wanted = cluster.instance("it");
    let limit = ResourceSummary {
        cpu: 500,
        memory: 128,
        disk: 2,
    };
    wanted.resource = Some(Resource {
        limit: Some(limit),
        usage: None,
    });
    let mut updates = cluster.create(wanted.clone()).await.unwrap();
    let scheduled = updates.until_state(Status::Scheduled).await;
    assert_eq!(scheduled.status_description, "on node seed-1");
    assert!(stream.tell(node.status(4000)).await);

    // The numbers of the two documents differ from 6 on; each is told in its
    // own, and no update without resources takes the limits away.
    let mut controller = node.client.controller();
    let table = [
        (Pushed::Starting, Status::Starting, "", ""),
        (Pushed::Running, Status::Running, "", ""),
        (Pushed::Crashed, Status::Failed, "exit 3", "crashed: exit 3"),
        (Pushed::Running, Status::Running, "", ""),
        (Pushed::Stopping, Status::Stopping, "", ""),
        (Pushed::Stopped, Status::Stopped, "", ""),
        (Pushed::Running, Status::Running, "", ""),
    ];
    for (push, told, description, shown) in table {
        let status = pushed("id-it", push, description);
        controller.set_instance_status(status).await.unwrap();
        let update = updates.until_state(told).await;
        assert_eq!(update.status_description, shown, "{push:?}");
        assert_eq!(update.resource.unwrap().limit, Some(limit), "{push:?}");
    }
    let status = controller::NodeStatus {
        id: "seed-1".into(),
        status: Pushed::Running.into(),
        ..Default::default()
    };
    controller.set_node_status(status).await.unwrap();
    let mut other = cluster.instance("other");
    other.resource = wanted.resource;
    let mut other = cluster.create(other).await.unwrap();
    other.until_state(Status::Scheduled).await;

    // Deleted, it is gone when the node says so, and does not come back.
    cluster.destroy("id-it").await.unwrap();
    updates.until_state(Status::Destroying).await;
    let gone = pushed("id-it", Pushed::Terminated, "");
    controller.set_instance_status(gone).await.unwrap();
    let seen = updates.to_end().await;
    assert_eq!(seen.last().unwrap().0, Status::Terminated, "{seen:?}");
    refused(cluster.start_again("id-it").await, Code::NotFound);
    let late = pushed("id-it", Pushed::Crashed, "exit 1");
    refused(controller.set_instance_status(late).await, Code::NotFound);

    // A clean end of the stream is not a departure; silence is.
    stream.end().await.unwrap();
    let lost = other.until(|update| update.status() != Status::Scheduled);
    let lost = lost.await;
    assert!(
        lost.status_description.contains("seed-1 was lost"),
        "{lost:?}"
    );
    other.until_state(Status::Failed).await;
    cluster.node_is("seed-1", "LOST").await;
    let back = node.stream(node.status(4000)).await;
    cluster.node_is("seed-1", "READY").await;
    cluster.settles(&[], &[]).await;
    let mut again = cluster.instance("other");
    again.resource = wanted.resource;
    cluster
        .instance_until("id-other", |one| one["status"] == "SCHEDULED")
        .await;
    let mut other = cluster.create(again).await.unwrap();
    other.until_state(Status::Scheduled).await;
    back.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_when_it_is_empty() {
    let cluster = cluster(0).await;
    let (one, two) = (
        cluster.seed_node("one").await,
        cluster.seed_node("two").await,
    );
    one.register().await.unwrap();
    let first = one.stream(one.status(1000)).await;
    cluster.node_is("one", "READY").await;
    let mut updates = cluster.create(cluster.instance("it")).await.unwrap();
    updates.until_state(Status::Scheduled).await;
    let answer = one.unregister("one").await.unwrap();
    assert_eq!(answer.code, 0, "{answer:?}");
    // It is the only one there is, and stays until there is room elsewhere.
    assert_eq!(one.register().await.unwrap().subnet, "10.42.0.0/24");
    assert_eq!(two.register().await.unwrap().subnet, "10.42.1.0/24");
    let second = two.stream(two.status(1000)).await;
    let moved = updates.until(|update| update.status_description.starts_with("on node two"));
    moved.await;
    wait_for("the node to be forgotten", TEST_TIMEOUT, async || {
        let again = one.unregister("one").await.map_err(|s| s.to_string())?;
        holds(again.code != 0).map_err(|_| format!("{again:?}"))
    })
    .await;
    drop((first, second));
}

#[tokio::test(flavor = "multi_thread")]
async fn registering_is_refused_by_code_and_leaves_nothing() {
    let cluster = cluster(0).await;
    let node = cluster.seed_node("seed-1").await;
    let other = cluster.seed_node("seed-2").await;
    let admin = cluster.client().await;
    let own = std::fs::read_to_string(cluster.server.data_dir().join("client/client.crt"));
    let request = |certificate: &str| NodeRegisterRequest {
        certificate: certificate.to_owned(),
    };
    let mut nodes = node.client.scheduler_nodes();
    for (certificate, code) in [
        (String::new(), 1),
        ("nonsense".into(), 1),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
            2,
        ),
        (other.certificate(), 2),
    ] {
        let answer = nodes.register(request(&certificate)).await.unwrap();
        let answer = answer.into_inner();
        assert_eq!(answer.code, code, "{certificate:?}: {answer:?}");
        assert!(!answer.description.is_empty() && answer.subnet.is_empty());
    }
    // An admin is no node, even with its own certificate.
    let answer = admin
        .scheduler_nodes()
        .register(request(&own.unwrap()))
        .await;
    match answer {
        Ok(answer) => assert_eq!(answer.into_inner().code, 3),
        Err(status) => assert_eq!(status.code(), Code::PermissionDenied, "{status}"),
    }
    // Nothing was registered meanwhile.
    assert_eq!(node.register().await.unwrap().subnet, "10.42.0.0/24");
    let unknown = node.unregister("nobody").await;
    refused(unknown, Code::PermissionDenied);
    let admin = cluster.client().await;
    let request = strata_testkit::scheduler::NodeUnregisterRequest {
        id: "nobody".into(),
    };
    let unknown = admin.scheduler_nodes().unregister(request).await.unwrap();
    assert_eq!(unknown.into_inner().code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_speaks_of_itself_and_its_own_alone() {
    let cluster = cluster(0).await;
    let (one, two) = (
        cluster.seed_node("one").await,
        cluster.seed_node("two").await,
    );
    // Before it registers it has nothing to tell.
    let early = one.stream(one.status(1000)).await.end().await;
    refused(early, Code::FailedPrecondition);
    one.register().await.unwrap();
    two.register().await.unwrap();
    let stream = one.stream(one.status(4000)).await;
    cluster.node_is("one", "READY").await;
    let mut updates = cluster.create(cluster.instance("it")).await.unwrap();
    updates.until_state(Status::Scheduled).await;
    // Of another node.
    let error = two.stream(one.status(1)).await.end().await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    assert_eq!(field_of(&error).as_deref(), Some("id"));
    let status = controller::NodeStatus {
        id: "one".into(),
        status: Pushed::Failed.into(),
        ..Default::default()
    };
    let mut controller = two.client.controller();
    let error = controller.set_node_status(status.clone()).await;
    refused(error, Code::PermissionDenied);
    refused(two.unregister("one").await, Code::PermissionDenied);
    // Of another's instance, alone or in a list.
    let of_others = pushed("id-it", Pushed::Running, "");
    refused(
        controller.set_instance_status(of_others).await,
        Code::NotFound,
    );
    let mut listed = status;
    listed.id = "two".into();
    listed.status = Pushed::Running.into();
    listed.instances = vec![controller::Instance {
        id: "id-it".into(),
        status: Pushed::Running.into(),
        ..Default::default()
    }];
    refused(controller.set_node_status(listed).await, Code::NotFound);
    // Nothing came of it.
    let mut again = cluster.create(cluster.instance("it")).await.unwrap();
    let now = again.next().await.unwrap().unwrap();
    assert_eq!(now.status(), Status::Scheduled, "{now:?}");
    assert_eq!(now.status_description, "on node one");
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_do_not_block_the_node() {
    let cluster = cluster(1).await;
    let mut held = Vec::new();
    for n in 0..4 {
        let node = cluster.seed_node(&format!("seed-{n}")).await;
        assert_eq!(node.register().await.unwrap().code, 0);
        // Nothing fits there, so what is created runs on the real node.
        held.push(node.stream(node.status(0)).await);
    }
    let mut open = Vec::new();
    for n in 0..8 {
        open.push(cluster.run(cluster.instance(&format!("i{n}"))).await);
    }
    assert!(held.iter().all(SeedStream::is_open));
    let late = cluster.seed_node("late").await;
    assert_eq!(late.register().await.unwrap().code, 0);
    for n in 0..8 {
        cluster.destroy(&format!("id-i{n}")).await.unwrap();
    }
    for updates in open {
        let seen = updates.to_end().await;
        assert_eq!(seen.last().unwrap().0, Status::Terminated, "{seen:?}");
    }
    for stream in held {
        stream.end().await.unwrap();
    }
}
