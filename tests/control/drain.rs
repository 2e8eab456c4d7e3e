//! Nodes are emptied, opened again, and leave.

use strata_testkit::scheduler::{NodeUnregisterRequest, Resource, ResourceSummary, Status};
use strata_testkit::serde_json::json;
use strata_testkit::{holds, wait_for};

use crate::{PATIENCE, cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_is_emptied_and_takes_again_when_opened() {
    let cluster = cluster(2).await;
    let ids = ["id-a", "id-b", "id-c", "id-d"];
    let mut streams = Vec::new();
    for id in ids {
        let mut instance = cluster.instance(&id[3..]);
        instance.resource = Some(Resource {
            limit: Some(ResourceSummary {
                cpu: 100,
                memory: 32,
                disk: 0,
            }),
            usage: None,
        });
        streams.push(cluster.run(instance).await);
    }
    let running = cluster.settles(&ids, &[]).await;
    let on_first = running.values().filter(|on| on[0] == "n1").count();
    assert_eq!(on_first, 2, "they are spread: {running:?}");
    let rest = cluster.rest();
    rest.patch("/node/n1", json!({ "draining": true })).await;
    wait_for("the node to be empty", PATIENCE, async || {
        let running = cluster.running().await;
        let all = ids
            .iter()
            .all(|id| running.get(*id).is_some_and(|on| on == &["n2"]));
        holds(all).map_err(|_| format!("{running:?}"))
    })
    .await;
    cluster.settles(&ids, &[]).await;
    assert!(cluster.pods_on(0).await.is_empty());
    // Whoever watches is told, and the stream goes on.
    for (id, updates) in ids.iter().zip(&mut streams) {
        if running[*id] == ["n1"] {
            let moved = updates.until(|update| update.status_description.contains("n1 is drained"));
            assert_eq!(moved.await.status(), Status::Scheduled);
            updates.until_running().await;
        }
    }
    // It takes nothing while it is closed.
    cluster.run(cluster.instance("e")).await;
    assert_eq!(cluster.place("id-e").await.0, 1);
    rest.patch("/node/n1", json!({ "draining": false })).await;
    cluster.run(cluster.instance("f")).await;
    assert_eq!(cluster.place("id-f").await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_unregistered_leaves_when_it_is_empty() {
    let mut cluster = cluster(2).await;
    cluster.run(cluster.instance("a")).await;
    cluster.run(cluster.instance("b")).await;
    let admin = cluster.client().await;
    let request = NodeUnregisterRequest { id: "n1".into() };
    let answer = admin.scheduler_nodes().unregister(request).await.unwrap();
    assert_eq!(answer.into_inner().code, 0);
    wait_for("both to be on the other node", PATIENCE, async || {
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
    wait_for("the node to be forgotten", PATIENCE, async || {
        let answer = cluster.rest().call("GET", "/node/n1", json!(null)).await;
        holds(answer.status == 404).map_err(|_| format!("{answer:?}"))
    })
    .await;
    cluster.nodes[0].daemon.restart().await;
    let back = cluster.node_is("n1", "READY").await;
    assert_eq!(back["subnet"], "10.42.0.0/24");
}
