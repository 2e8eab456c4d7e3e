//! Instances: made, listed, shown, changed, started, stopped, deleted.

use serde_json::{Value, json};
use strata_api::controller::Status;
use strata_api::rest;
use strata_types::Role;

use crate::world::{World, caller};

#[tokio::test]
async fn instance_is_created_and_shown_as_documented() {
    let world = World::new().await;
    let body = json!({
        "name": "web", "type": "CONTAINER", "uri": "docker.io/library/nginx:1.27",
        "environment": ["A=1"], "resources": {"max": {"cpu": 500, "memory": 128, "disk": 1}},
        "ports": ["8080:80", "53:53/udp"], "status": "RUNNING",
        "labels": {"tier": "front"}, "health": {"tcp": 80},
    });
    let made = world.put("/instance/", &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let told = made.json();
    let id = told["id"].as_str().unwrap();
    assert_eq!(made.header("location"), Some(&*format!("/instance/{id}")));
    assert_eq!(told["resources"]["max"]["cpu"], 500);
    assert_eq!(told["resources"]["usage"]["cpu"], 0);
    assert_eq!(told["ports"], json!(["8080:80", "53:53/udp"]));
    assert_eq!(told["project"], "default");
    assert_eq!(told["owner"], "admin");
    for path in [
        format!("/instance/{id}"),
        format!("/instance/{id}/"),
        "/instance/web".into(),
        "/instance/web?project=default".into(),
        "/instance/default%2Fweb".into(),
    ] {
        let found = world.get(&path).await;
        assert_eq!(
            (found.status, &found.json()["id"]),
            (200, &json!(id)),
            "{path}"
        );
    }
    world
        .get("/instance/web?project=other")
        .await
        .refused(404, None);
    // The types that clients read hold the same as the answer.
    let read: rest::Instance = serde_json::from_value(told.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), told);
}

#[tokio::test]
async fn repeated_create_request_is_idempotent() {
    let world = World::new().await;
    let body = json!({ "name": "web", "uri": "x", "resources": {"cpu": 100} });
    let first = world.put("/instance", &body).await;
    let again = world.put("/instance/", &body).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(first.header("location"), again.header("location"));
    let other = json!({ "name": "web", "uri": "y" });
    world
        .put("/instance", &other)
        .await
        .refused(409, Some("name"));
    assert_eq!(world.get("/instance/web").await.json()["uri"], "x");
}

#[tokio::test]
async fn instance_list_is_paged_filtered_and_counted() {
    let world = World::new().await;
    for i in 0..7 {
        let stopped = json!({ "id": format!("i{i}"), "name": format!("n{i}"), "uri": "x", "status": "STOPPED" });
        assert_eq!(world.put("/instance", &stopped).await.status, 201);
    }
    let vm = json!({ "id": "vm", "uri": "/disk.img", "type": "VM" });
    assert_eq!(world.put("/instance", &vm).await.status, 201);
    world
        .until("/instance/vm", |it| it.json()["status"] == "FAILED")
        .await;
    let ids = |list: Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    for (query, expected, total) in [
        (
            "",
            vec!["i0", "i1", "i2", "i3", "i4", "i5", "i6", "vm"],
            "8",
        ),
        ("?limit=2", vec!["i0", "i1"], "8"),
        ("?limit=2&offset=3", vec!["i3", "i4"], "8"),
        ("?offset=7", vec!["vm"], "8"),
        ("?offset=99", vec![], "8"),
        ("?type=VM", vec!["vm"], "1"),
        ("?state=STOPPED&limit=1", vec!["i0"], "7"),
        ("?project=default&limit=1000&state=FAILED", vec!["vm"], "1"),
        ("?project=other", vec![], "0"),
        ("?node=nowhere", vec![], "0"),
    ] {
        let list = world.get(&format!("/instance/{query}")).await;
        assert_eq!(list.header("x-total-count"), Some(total), "{query}");
        assert_eq!(ids(list.json()), expected, "{query}");
    }
}

#[tokio::test]
async fn instance_lifecycle_over_rest() {
    let world = World::new().await;
    world.node("n1").await;
    let id = world.instance("web").await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/instance/{id}");
    let placed = world
        .until(&path, |it| it.json()["status"] == "SCHEDULED")
        .await;
    assert_eq!(placed.json()["node"], "n1");
    world.tell(&id, Status::Running, "").await;
    assert_eq!(world.get(&path).await.json()["status"], "RUNNING");
    let on = world.get("/instance?node=n1&state=RUNNING").await;
    assert_eq!(on.header("x-total-count"), Some("1"));

    let stopping = world.patch(&path, &json!({ "status": "STOPPED" })).await;
    assert_eq!(stopping.json()["status"], "STOPPING");
    assert_eq!(stopping.json()["wanted"], "STOPPED");
    world.tell(&id, Status::Stopped, "").await;
    let again = world.patch(&path, &json!({ "status": "STOPPED" })).await;
    assert_eq!(
        (again.status, again.json()["status"].as_str()),
        (200, Some("STOPPED"))
    );
    let started = world.patch(&path, &json!({ "status": "RUNNING" })).await;
    assert_eq!(started.json()["status"], "STARTING");
    world.tell(&id, Status::Running, "").await;

    let replaced = world.patch(&path, &json!({ "environment": ["A=2"] })).await;
    assert_eq!(
        replaced.json()["description"],
        "replaced: its specification changed"
    );
    assert_eq!(replaced.json()["generation"], 2);

    assert_eq!(world.delete(&path).await.status, 202);
    assert_eq!(world.get(&path).await.json()["status"], "DESTROYING");
    // Of something that goes already: the same.
    assert_eq!(world.delete(&path).await.status, 202);
    world
        .patch(&path, &json!({ "uri": "y" }))
        .await
        .refused(409, None);
    world.tell(&id, Status::Terminated, "").await;
    world.get(&path).await.refused(404, None);
    world.delete(&path).await.refused(404, None);
}

#[tokio::test]
async fn instance_crash_is_reported_with_its_limits() {
    let world = World::new().await;
    world.node("n1").await;
    let body =
        json!({ "id": "one", "uri": "x", "resources": {"cpu": 100, "memory": 64, "disk": 1} });
    world.put("/instance", &body).await;
    let placed = |it: &crate::world::Answer| it.json()["status"] == "SCHEDULED";
    world.until("/instance/one", placed).await;
    world.tell("one", Status::Crashed, "exit 3").await;
    let told = world.get("/instance/one").await.json();
    assert_eq!(told["status"], "CRASHED");
    assert_eq!(
        told["resources"]["max"],
        json!({"cpu": 100, "memory": 64, "disk": 1})
    );
}

#[tokio::test]
async fn instance_patch_changes_only_named_fields() {
    let world = World::new().await;
    let body = json!({
        "id": "one", "name": "a", "uri": "x", "environment": ["A=1"], "ports": ["80:80"],
        "resources": {"cpu": 100, "memory": 64, "disk": 1}, "user": "me", "status": "STOPPED",
        "labels": {"a": "1", "b": "2"},
    });
    world.put("/instance", &body).await;
    let merge = ("content-type", "application/merge-patch+json");
    let patch = json!({
        "name": "b", "resources": {"max": {"memory": 128}}, "labels": {"a": null, "c": "3"},
        "user": null, "ports": [],
    });
    let text = patch.to_string();
    let told = world
        .ask(
            caller(Role::Operator),
            "PATCH",
            "/instance/one",
            &[merge],
            text,
        )
        .await
        .json();
    assert_eq!(told["name"], "b");
    assert_eq!(
        told["resources"]["max"],
        json!({"cpu": 100, "memory": 128, "disk": 1})
    );
    assert_eq!(told["labels"], json!({"b": "2", "c": "3"}));
    assert_eq!(told.get("user"), None);
    assert_eq!(
        (&told["ports"], &told["environment"]),
        (&json!([]), &json!(["A=1"]))
    );
    assert_eq!(world.get("/instance/b").await.status, 200);
    world.get("/instance/a").await.refused(404, None);
    // Nothing requested, nothing changed.
    let before = world.get("/instance/one").await.etag();
    assert_eq!(
        world.patch("/instance/one", &json!({})).await.etag(),
        before
    );
}

#[tokio::test]
async fn placement_is_explained() {
    let world = World::new().await;
    world.node("n1").await;
    world.node("n2").await;
    let body = json!({ "id": "one", "uri": "x", "placement": {"constraints": ["node=n2"]} });
    world.put("/instance", &body).await;
    let placed = |it: &crate::world::Answer| it.json()["status"] == "SCHEDULED";
    world.until("/instance/one", placed).await;
    let why = world.get("/instance/one/placement/").await.json();
    let why: rest::Placement = serde_json::from_value(why).unwrap();
    assert_eq!(why.node.as_deref(), Some("n2"));
    assert_eq!((why.nodes.len(), why.nodes[0].chosen), (2, true), "{why:?}");
    world
        .get("/instance/two/placement")
        .await
        .refused(404, None);
}
