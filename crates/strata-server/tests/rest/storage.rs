//! The storage pool of a server that has none: every route says so, and what
//! to do.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn server_without_a_pool_refuses_all_storage_routes() {
    let world = World::new().await;
    let empty = json!({});
    let named = json!({ "name": "data" });
    let answers = [
        world.get("/storage").await,
        world.get("/storage/volume").await,
        world.get("/storage/volume/data").await,
        world.post("/storage/expand", &empty).await,
        world.post("/storage/expand?dryRun=true", &empty).await,
        world.post("/storage/shrink", &empty).await,
        world.post("/storage/scrub", &empty).await,
        world.put("/storage/device", &json!({ "bytes": 1 })).await,
        world.delete("/storage/device/d1").await,
        world.post("/storage/device/d1/replace", &empty).await,
        world.put("/storage/volume", &named).await,
        world.patch("/storage/volume/data", &empty).await,
        world.delete("/storage/volume/data").await,
        world.put("/storage/volume/data/snapshot", &named).await,
        world.delete("/storage/volume/data/snapshot/s").await,
    ];
    for answer in answers {
        let problem = answer.refused(409, None);
        assert!(problem["hint"].as_str().unwrap().contains("[storage]"));
    }
    assert_eq!(world.get("/operation").await.json(), json!([]));
}

#[tokio::test]
async fn bad_requests_are_refused_by_their_field_before_the_pool_is_asked() {
    let world = World::new().await;
    for (path, bad, field) in [
        ("/storage/device", json!({}), "bytes"),
        (
            "/storage/device",
            json!({ "path": "/dev/x", "bytes": 1 }),
            "bytes",
        ),
        ("/storage/device", json!({ "size": 1 }), "size"),
        ("/storage/volume", json!({}), "name"),
        ("/storage/volume", json!({ "name": "A B" }), "name"),
        (
            "/storage/volume",
            json!({ "name": "a", "kind": "tape" }),
            "kind",
        ),
        (
            "/storage/volume",
            json!({ "name": "a", "quotaBytes": -1 }),
            "quotaBytes",
        ),
        (
            "/storage/volume",
            json!({ "name": "a", "from": "../x" }),
            "from",
        ),
        ("/storage/volume/a/snapshot", json!({ "name": "" }), "name"),
    ] {
        world.put(path, &bad).await.refused(422, Some(field));
    }
    for (path, bad, field) in [
        ("/storage/expand", json!({ "minBytes": -1 }), "minBytes"),
        ("/storage/expand", json!({ "maxBytes": 1 }), "maxBytes"),
        ("/storage/expand?dryRun=yes&x=1", json!({}), "x"),
        ("/storage/shrink", json!({ "maxBytes": "all" }), "maxBytes"),
        ("/storage/device/d1/replace", json!({ "by": "d2" }), "by"),
    ] {
        world.post(path, &bad).await.refused(422, Some(field));
    }
    let unreadable = world.delete("/storage/volume/a/snapshot/%ff").await;
    unreadable.refused(400, Some("id"));
}
