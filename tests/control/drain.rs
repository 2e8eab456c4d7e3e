//! Nodes are emptied, opened again, and leave.

use strata_testkit::cluster::port;
use strata_testkit::scheduler::{NodeUnregisterRequest, Status};
use strata_testkit::serde_json::json;
use strata_testkit::{holds, wait_for};

use crate::control::{TEST_TIMEOUT, cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_is_emptied_and_takes_again_when_opened() {
    let cluster = cluster(2).await;
    let ids = ["id-a", "id-b", "id-c", "id-d"];
    let mut streams = Vec::new();
    for id in ids {
        streams.push(cluster.run(cluster.instance(&id[3..])).await);
    }
    let before = cluster.settles(&ids, &[]).await;
    let (drained, _) = cluster.place("id-a").await;
    let (name, path) = (
        &cluster.nodes[drained].name,
        format!("/node/n{}", drained + 1),
    );
    let other = cluster.nodes[1 - drained].name.as_str();
    let rest = cluster.rest();
    rest.patch(&path, json!({ "draining": true })).await;
    wait_for("the node to be empty", TEST_TIMEOUT, async || {
        let running = cluster.running().await;
        let there = |id: &&str| running.get(*id).is_some_and(|on| on == &[other]);
        holds(ids.iter().all(there)).map_err(|_| format!("{running:?}"))
    })
    .await;
    cluster.settles(&ids, &[]).await;
    assert!(cluster.pods_on(drained).await.is_empty());
    // Whoever watches is told, and the stream goes on.
    let why = format!("{name} is drained");
    for (id, updates) in ids.iter().zip(&mut streams) {
        if before[*id] == [name.clone()] {
            let moved = updates.until(|update| update.status_description.contains(&why));
            assert_eq!(moved.await.status(), Status::Scheduled);
            updates.until_running().await;
        }
    }
    // It takes nothing while it is closed, and again when it is open.
    let mut first = cluster.instance("e");
    first.ports = vec![port(8080, 80)];
    cluster.run(first).await;
    assert_eq!(cluster.place("id-e").await.0, 1 - drained);
    let mut second = cluster.instance("f");
    second.ports = vec![port(8080, 80)];
    let mut second = cluster.create(second).await.unwrap();
    let failed = second.until_state(Status::Failed).await;
    assert!(failed.status_description.contains("drain"), "{failed:?}");
    rest.patch(&path, json!({ "draining": false })).await;
    cluster.pod_until("id-f", |pod| pod.process_id != 0).await;
    second.until_running().await;
    assert_eq!(cluster.place("id-f").await.0, drained);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_unregistered_leaves_when_it_is_empty() {
    let mut cluster = cluster(2).await;
    cluster.run(cluster.instance("a")).await;
    cluster.run(cluster.instance("b")).await;
    let admin = cluster.client().await;
    let before = cluster.node_is("n1", "READY").await;
    let request = NodeUnregisterRequest { id: "n1".into() };
    let answer = admin.scheduler_nodes().unregister(request).await.unwrap();
    assert_eq!(answer.into_inner().code, 0);
    wait_for("both to be on the other node", TEST_TIMEOUT, async || {
        let running = cluster.running().await;
        let all = ["id-a", "id-b"]
            .iter()
            .all(|id| running.get(*id).is_some_and(|on| on == &["n2"]));
        holds(all).map_err(|_| format!("{running:?}"))
    })
    .await;
    cluster.settles(&["id-a", "id-b"], &[]).await;
    // It is told of no more. Its daemon may come back as a new one.
    cluster.nodes[0].daemon.terminate().await;
    wait_for("the node to be forgotten", TEST_TIMEOUT, async || {
        let answer = cluster.rest().call("GET", "/node/n1", json!(null)).await;
        holds(answer.status == 404).map_err(|_| format!("{answer:?}"))
    })
    .await;
    cluster.nodes[0].daemon.restart().await;
    let back = cluster.node_is("n1", "READY").await;
    assert_eq!(back["subnet"], before["subnet"], "it asks for what it had");
}
