//! Nodes: listed, labelled, drained, dismissed; and what happened to them.

use serde_json::json;
use strata_api::rest;

use crate::world::World;

#[tokio::test]
async fn nodes_are_shown_with_capacity_and_use() {
    let world = World::new().await;
    world.node("n1").await;
    world.node("n2").await;
    let body = json!({ "id": "one", "uri": "x", "resources": {"cpu": 500, "memory": 128, "disk": 2},
        "placement": {"constraints": ["node=n1"]} });
    world.put("/instance", &body).await;
    world
        .until("/node/n1", |it| it.json()["instances"] == 1)
        .await;
    let node: rest::Node = serde_json::from_value(world.get("/node/n1").await.json()).unwrap();
    assert_eq!(node.status, rest::NodeStatus::Ready);
    assert_eq!((node.capacity.cpu, node.capacity.memory), (64_000, 256_000));
    assert_eq!((node.reserved.cpu, node.reserved.disk), (500, 2));
    assert_eq!(node.subnet, "10.42.0.0/24");
    let list = world.get("/node/?limit=1&offset=1").await;
    assert_eq!(list.header("x-total-count"), Some("2"));
    assert_eq!(list.json()[0]["name"], "n2");
    assert_eq!(world.get("/node?state=LOST").await.json(), json!([]));
    world.get("/node/n3").await.refused(404, None);
}

#[tokio::test]
async fn node_is_labelled_drained_undrained_and_removed() {
    let world = World::new().await;
    world.node("n1").await;
    let patch = json!({ "labels": {"zone": "a", "disk": "ssd"}, "draining": true });
    let told = world.patch("/node/n1", &patch).await.json();
    assert_eq!(
        (&told["status"], &told["draining"]),
        (&json!("DRAINING"), &json!(true))
    );
    assert_eq!(told["labels"], json!({"zone": "a", "disk": "ssd"}));
    let patch = json!({ "labels": {"disk": null}, "draining": false });
    let told = world.patch("/node/n1/", &patch).await.json();
    assert_eq!(
        (&told["status"], &told["labels"]),
        (&json!("READY"), &json!({"zone": "a"}))
    );
    for (bad, field) in [
        (json!({ "draining": 1 }), "draining"),
        (json!({ "draining": null }), "draining"),
        (json!({ "subnet": "x" }), "subnet"),
        (json!({ "labels": {"a": 1} }), "labels.a"),
        (json!({ "labels": {"": "x"} }), "labels."),
    ] {
        world
            .patch("/node/n1", &bad)
            .await
            .refused(422, Some(field));
    }
    assert_eq!(world.delete("/node/n1").await.status, 202);
    assert_eq!(world.get("/node/n1").await.json()["status"], "LEAVING");
    assert_eq!(world.delete("/node/n1?now=true").await.status, 202);
    world.delete("/node/n2").await.refused(404, None);
    world.delete("/node/n2?now=true").await.refused(404, None);

    let events = world.get("/event/?kind=node").await;
    let events: Vec<rest::Event> = serde_json::from_value(events.json()).unwrap();
    let said: Vec<&str> = events.iter().map(|event| event.message.as_str()).collect();
    assert!(
        said.contains(&"draining") && said.contains(&"ready"),
        "{said:?}"
    );
    let last = events.last().unwrap().number;
    assert_eq!(
        world.get(&format!("/event?after={last}")).await.json(),
        json!([])
    );
    let piece = world.get("/event?limit=1&offset=1&kind=node").await;
    assert_eq!(piece.json()[0]["number"], events[1].number);
    assert_eq!(
        piece.header("x-total-count"),
        Some(&*events.len().to_string())
    );
    world
        .get("/event?kind=box")
        .await
        .refused(422, Some("kind"));
}
