//! ETag, If-Match, If-None-Match.

use serde_json::json;
use strata_types::Role;

use crate::world::{World, caller};

#[tokio::test]
async fn if_match_guards_a_change() {
    let world = World::new().await;
    world.node("n1").await;
    world.put("/project", &json!({ "name": "team" })).await;
    world
        .put("/workload", &json!({ "name": "w", "uri": "x" }))
        .await;
    world
        .put(
            "/instance",
            &json!({ "name": "i", "uri": "x", "status": "STOPPED" }),
        )
        .await;
    for (path, patch) in [
        ("/instance/i", json!({ "uri": "y", "status": "STOPPED" })),
        ("/workload/w", json!({ "uri": "y" })),
        ("/node/n1", json!({ "labels": {"a": "b"} })),
        ("/project/team", json!({ "quota": {"cpu": 1} })),
    ] {
        let before = world.get(path).await;
        let old = [("if-match", "\"1000000\"")];
        world
            .with_body("PATCH", path, &old, &patch)
            .await
            .refused(412, Some("If-Match"));
        let tag = before.etag();
        let good = [("if-match", tag.as_str())];
        let changed = world.with_body("PATCH", path, &good, &patch).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_ne!(changed.etag(), tag, "{path}");
        world
            .with_body("PATCH", path, &good, &patch)
            .await
            .refused(412, Some("If-Match"));
        let gone = world
            .ask(caller(Role::Admin), "DELETE", path, &good, "")
            .await;
        gone.refused(412, Some("If-Match"));
        let bad = [("if-match", "12")];
        world
            .with_body("PATCH", path, &bad, &patch)
            .await
            .refused(400, Some("If-Match"));
        let any = [("if-match", "*")];
        assert_eq!(
            world.with_body("PATCH", path, &any, &patch).await.status,
            200
        );
        let now = world.get(path).await.etag();
        let one_of = format!("\"1\", {now}");
        let gone = world
            .ask(
                caller(Role::Admin),
                "DELETE",
                path,
                &[("if-match", &one_of)],
                "",
            )
            .await;
        assert_eq!(gone.status, 202, "{path}: {gone:?}");
    }
}

#[tokio::test]
async fn if_none_match_returns_not_modified() {
    let world = World::new().await;
    world.node("n1").await;
    world
        .put("/workload", &json!({ "name": "w", "uri": "x" }))
        .await;
    world
        .put(
            "/instance",
            &json!({ "name": "i", "uri": "x", "status": "STOPPED" }),
        )
        .await;
    for path in ["/instance/i", "/workload/w", "/node/n1", "/project/default"] {
        let tag = world.get(path).await.etag();
        let headers = [("if-none-match", tag.as_str())];
        let same = world
            .ask(caller(Role::Viewer), "GET", path, &headers, "")
            .await;
        assert_eq!((same.status, same.text.as_str()), (304, ""), "{path}");
        assert_eq!(same.etag(), tag);
        let weak = format!("W/{tag}");
        let headers = [("if-none-match", weak.as_str())];
        let same = world
            .ask(caller(Role::Viewer), "GET", path, &headers, "")
            .await;
        assert_eq!(same.status, 304);
        let headers = [("if-none-match", "\"999999\"")];
        let other = world
            .ask(caller(Role::Viewer), "GET", path, &headers, "")
            .await;
        assert_eq!(other.status, 200);
    }
}
