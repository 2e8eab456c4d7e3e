//! Workloads: made, changed, used, deleted with and without their instances.

use serde_json::json;
use strata_api::rest;

use crate::world::World;

#[tokio::test]
async fn workload_is_created_shown_updated_and_deleted() {
    let world = World::new().await;
    let body =
        json!({ "name": "web", "uri": "x", "resources": {"cpu": 100, "memory": 64, "disk": 1} });
    let made = world.put("/workload/", &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let told = made.json();
    assert_eq!(
        told["resources"],
        json!({"cpu": 100, "memory": 64, "disk": 1})
    );
    let read: rest::Workload = serde_json::from_value(told.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), told);
    assert_eq!(
        made.header("location"),
        Some(&*format!("/workload/{}", read.id))
    );
    assert_eq!(world.put("/workload", &body).await.status, 200);
    let other = json!({ "name": "web", "uri": "y" });
    world
        .put("/workload", &other)
        .await
        .refused(409, Some("name"));

    let patch = json!({ "name": "site", "uri": "y", "resources": {"memory": 128} });
    let changed = world.patch("/workload/web", &patch).await.json();
    assert_eq!(
        (&changed["name"], &changed["uri"]),
        (&json!("site"), &json!("y"))
    );
    assert_eq!(changed["resources"]["cpu"], 100);
    let list = world.get("/workload?type=CONTAINER&limit=1").await;
    assert_eq!(list.header("x-total-count"), Some("1"));
    assert_eq!(world.get("/workload?type=VM").await.json(), json!([]));

    assert_eq!(world.delete("/workload/site").await.status, 202);
    world.get("/workload/site").await.refused(404, None);
    world.delete("/workload/site").await.refused(404, None);
}

#[tokio::test]
async fn workload_with_instances_cannot_be_deleted() {
    let world = World::new().await;
    let body = json!({ "id": "w", "name": "web", "uri": "x", "environment": ["A=1"] });
    world.put("/workload", &body).await;
    for (name, of) in [("one", "w"), ("two", "web")] {
        let made = world
            .put("/instance", &json!({ "workloadId": of, "name": name }))
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        let told = made.json();
        assert_eq!(
            (&told["workloadId"], &told["uri"]),
            (&json!("w"), &json!("x"))
        );
        assert_eq!(told["environment"], json!(["A=1"]));
    }
    let more = json!({ "workloadId": "w", "uri": "y" });
    world
        .put("/instance", &more)
        .await
        .refused(422, Some("uri"));
    let none = json!({ "workloadId": "nothing" });
    world.put("/instance", &none).await.refused(404, None);
    let of = world.get("/instance?workload=web").await;
    assert_eq!(of.header("x-total-count"), Some("2"));
    assert_eq!(world.get("/workload/w").await.json()["instances"], 2);

    world.delete("/workload/w").await.refused(409, None);
    assert_eq!(world.get("/workload/w").await.status, 200);
    assert_eq!(world.delete("/workload/w?cascade=true").await.status, 202);
    world.get("/workload/w").await.refused(404, None);
    assert_eq!(world.get("/instance").await.json(), json!([]));
}
