//! Machines of the inventory, what they become, and what brings them up by
//! itself.

use serde_json::{Value, json};
use strata_types::Role;

use crate::watch::Reader;
use crate::world::{World, caller};

fn rack() -> Value {
    json!({ "id": "rack-1", "provider": "redfish", "handle": "/redfish/v1/Systems/1",
        "address": "https://192.0.2.7", "credentials": "rack", "labels": {"zone": "a"} })
}

#[tokio::test]
async fn machine_is_registered_shown_and_removed() {
    let world = World::new().await;
    let added = world.put("/machine", &rack()).await;
    assert_eq!(added.status, 201, "{added:?}");
    assert_eq!(added.header("location"), Some("/machine/rack-1"));
    let told = added.json();
    for (field, value) in [
        ("phase", json!("AVAILABLE")),
        ("state", json!("AVAILABLE_TO_CREATE")),
        ("power", json!("UNKNOWN")),
        ("provider", json!("redfish")),
        ("credentials", json!("rack")),
        ("cpu", json!(0)),
    ] {
        assert_eq!(told[field], value, "{field} of {told}");
    }
    let same = world.put("/machine/", &rack()).await;
    assert_eq!((same.status, same.json()), (200, told.clone()));
    let mut other = rack();
    other["labels"] = json!({"zone": "b"});
    let refused = world.put("/machine", &other).await.refused(409, None);
    assert!(refused["hint"].as_str().unwrap().contains("remove"));

    // What the provider calls it is its id, by default.
    let plain = json!({ "id": "box", "provider": "local", "cpu": 2, "ram": 2048 });
    let plain = world.put("/machine", &plain).await.json();
    assert_eq!(
        (&plain["handle"], &plain["cpu"], &plain["ram"]),
        (&json!("box"), &json!(2), &json!(2048))
    );
    for path in ["/machine", "/hypervisor/"] {
        let list = world.get(&format!("{path}?limit=1&offset=1")).await;
        assert_eq!(list.header("x-total-count"), Some("2"));
        assert_eq!(list.json()[0]["id"], "rack-1");
    }
    assert_eq!(world.get("/hypervisor/box").await.json(), plain);
    assert_eq!(world.delete("/machine/box").await.status, 202);
    world.get("/machine/box").await.refused(404, None);
    world.delete("/machine/box").await.refused(404, None);
}

#[tokio::test]
async fn machine_name_of_a_node_is_refused() {
    let world = World::new().await;
    world.node("n1").await;
    let taken = json!({ "id": "n1", "provider": "local" });
    world.put("/machine", &taken).await.refused(409, Some("id"));
}

#[tokio::test]
async fn bad_machines_are_refused_by_their_field() {
    let world = World::new().await;
    world.put("/machine", &rack()).await;
    let before = world.get("/machine").await.text;
    let many: serde_json::Map<String, Value> =
        (0..101).map(|n| (format!("l{n}"), json!("x"))).collect();
    for (bad, field) in [
        (json!({ "provider": null }), "provider"),
        (json!({ "provider": "cloud" }), "provider"),
        (json!({ "id": "Not A Label" }), "id"),
        (json!({ "id": 1 }), "id"),
        (json!({ "colour": "red" }), "colour"),
        (json!({ "phase": "UP" }), "phase"),
        (json!({ "cpu": 0 }), "cpu"),
        (json!({ "cpu": -1 }), "cpu"),
        (json!({ "cpu": 5000 }), "cpu"),
        (json!({ "ram": "1" }), "ram"),
        (json!({ "disk": 2_000_000 }), "disk"),
        (json!({ "handle": "a\u{0}b" }), "handle"),
        (json!({ "address": "x".repeat(600) }), "address"),
        (json!({ "credentials": "x".repeat(64) }), "credentials"),
        (json!({ "labels": {"": "x"} }), "labels."),
        (json!({ "labels": {"a": 1} }), "labels.a"),
        (json!({ "labels": many }), "labels"),
    ] {
        let mut new = json!({ "id": "new", "provider": "local" });
        let fields = new.as_object_mut().unwrap();
        fields.extend(bad.as_object().unwrap().clone());
        world.put("/machine", &new).await.refused(422, Some(field));
    }
    let empty = json!({});
    world.put("/machine", &empty).await.refused(422, Some("id"));
    let bare = json!({ "id": "new" });
    let bare = world.put("/machine", &bare).await;
    bare.refused(422, Some("provider"));
    for (bad, field) in [
        (json!({ "provider": "local" }), "provider"),
        (json!({ "id": "other" }), "id"),
        (json!({ "phase": "UP" }), "phase"),
        (json!({ "cpu": 0 }), "cpu"),
        (json!({ "labels": {"a": 1} }), "labels.a"),
    ] {
        let answer = world.patch("/machine/rack-1", &bad).await;
        answer.refused(422, Some(field));
    }
    assert_eq!(world.get("/machine").await.text, before);
}

#[tokio::test]
async fn machine_update_respects_if_match() {
    let world = World::new().await;
    let tag = world.put("/machine", &rack()).await.etag();
    let patch = json!({ "labels": {"zone": null, "disk": "ssd"}, "cpu": 8, "credentials": null });
    let good = [("if-match", tag.as_str())];
    let changed = world
        .with_body("PATCH", "/machine/rack-1", &good, &patch)
        .await;
    let told = changed.json();
    assert_eq!(
        (&told["labels"], &told["cpu"]),
        (&json!({"disk": "ssd"}), &json!(8))
    );
    assert_eq!(told.get("credentials"), None);
    let late = world
        .with_body("PATCH", "/machine/rack-1", &good, &patch)
        .await;
    late.refused(412, Some("If-Match"));
    let late = world
        .ask(caller(Role::Admin), "DELETE", "/machine/rack-1", &good, "")
        .await;
    late.refused(412, Some("If-Match"));
    let now = changed.etag();
    let known = [("if-none-match", now.as_str())];
    let same = world
        .ask(caller(Role::Viewer), "GET", "/machine/rack-1", &known, "")
        .await;
    assert_eq!((same.status, same.text.as_str()), (304, ""));
    // The same again changes nothing, not even the version.
    let again = world.patch("/machine/rack-1", &patch).await;
    assert_eq!(again.etag(), now);
}

#[tokio::test]
async fn machines_are_watched() {
    let world = World::new().await;
    world.put("/machine", &rack()).await;
    let mut all = Reader::new(&world, Role::Viewer, "/machine?watch=true").await;
    let mut one = Reader::new(&world, Role::Viewer, "/machine/rack-1?watch=true").await;
    for reader in [&mut all, &mut one] {
        let (word, _, told) = reader.next().await.unwrap();
        assert_eq!((word.as_str(), &told["id"]), ("put", &json!("rack-1")));
        assert_eq!(reader.next().await.unwrap().0, "synced");
    }
    let other = json!({ "id": "box", "provider": "local" });
    world.put("/machine", &other).await;
    world
        .patch("/machine/rack-1", &json!({ "cpu": 4 }))
        .await
        .etag();
    let (_, _, told) = all.next().await.unwrap();
    assert_eq!(told["id"], "box");
    for reader in [&mut all, &mut one] {
        let (word, _, told) = reader.next().await.unwrap();
        assert_eq!((word.as_str(), &told["cpu"]), ("put", &json!(4)));
    }
    world.delete("/machine/rack-1").await;
    for reader in [&mut all, &mut one] {
        assert_eq!(reader.next().await.unwrap().0, "delete");
    }
}

#[tokio::test]
async fn invalid_machine_action_is_refused() {
    let world = World::new().await;
    world.put("/machine", &rack()).await;
    for path in [
        "/hypervisor/x/create",
        "/hypervisor/x/destroy",
        "/hypervisor/x/drain",
    ] {
        world.post(path, &json!({})).await.refused(404, None);
    }
    let power = json!({ "power": "on" });
    let nowhere = world.post("/machine/x/power", &power).await;
    nowhere.refused(404, None);
    world.get("/machine/x/console").await.refused(404, None);
    // It is down: there is nothing to drain, to read.
    let drain = world.post("/hypervisor/rack-1/drain", &json!({})).await;
    drain.refused(409, None);
    let console = world.get("/machine/rack-1/console").await;
    let problem = console.refused(409, None);
    assert!(problem["hint"].as_str().unwrap().contains("[machines."));
    for (bad, field) in [
        (json!({}), "power"),
        (json!({ "power": "up" }), "power"),
        (json!({ "power": "on", "x": 1 }), "x"),
    ] {
        let answer = world.post("/machine/rack-1/power", &bad).await;
        answer.refused(422, Some(field));
    }
    for (role, path) in [
        (Role::Operator, "/hypervisor/rack-1/create"),
        (Role::Operator, "/machine/rack-1/power"),
        (Role::Viewer, "/hypervisor/rack-1/drain"),
    ] {
        let answer = world.ask(caller(role), "POST", path, &[], "").await;
        assert_eq!(answer.status, 403, "{path}");
    }
    assert_eq!(world.get("/operation").await.json(), json!([]));
}

#[tokio::test]
async fn machine_without_a_provider_fails_with_a_reason() {
    let world = World::new().await;
    world.put("/machine", &rack()).await;
    let begun = world.post("/hypervisor/rack-1/create", &json!({})).await;
    assert_eq!(begun.json()["kind"], "hypervisor-create");
    assert_eq!(
        begun.json()["about"],
        json!(["machine/rack-1", "node/rack-1"])
    );
    let ended = world.end_of(&begun).await;
    assert_eq!(ended["status"], "FAILED", "{ended}");
    let message = ended["message"].as_str().unwrap();
    assert!(message.contains("no provider redfish"), "{message}");
    let machine = world.get("/machine/rack-1").await.json();
    // Nothing was begun, so nothing is left.
    assert_eq!(machine["phase"], "AVAILABLE", "{machine}");
    assert_eq!(world.get("/node/rack-1").await.status, 404);
    let down = world.post("/hypervisor/rack-1/destroy", &json!({})).await;
    let ended = world.end_of(&down).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
}

#[tokio::test]
async fn autoscaler_settings_and_plan_are_served() {
    let world = World::new().await;
    let off = world.get("/autoscaling").await.json();
    assert_eq!(
        off,
        json!({ "enabled": false, "cpu": 0, "memory": 0, "gpu": 0, "least": 0, "most": 0 })
    );
    let idle = world.get("/autoscaling/plan").await.json();
    assert_eq!(
        (&idle["create"], &idle["destroy"]),
        (&json!([]), &json!([]))
    );

    let patch = json!({ "enabled": true, "cpu": 3000, "memory": 1000, "most": 5 });
    let set = world.patch("/autoscaling", &patch).await;
    assert_eq!((set.status, &set.json()["cpu"]), (200, &json!(3000)));
    let less = world.patch("/autoscaling/", &json!({ "most": null })).await;
    assert_eq!(
        (&less.json()["most"], &less.json()["cpu"]),
        (&json!(0), &json!(3000))
    );
    for (bad, field) in [
        (json!({ "cpu": -1 }), "cpu"),
        (json!({ "cpu": "many" }), "cpu"),
        (json!({ "memory": 2_000_000_000_000_u64 }), "memory"),
        (json!({ "least": 3, "most": 2 }), "least"),
        (json!({ "enabled": 1 }), "enabled"),
        (json!({ "colour": 1 }), "colour"),
    ] {
        let answer = world.patch("/autoscaling", &bad).await;
        answer.refused(422, Some(field));
    }
    assert_eq!(world.get("/autoscaling").await.json(), less.json());

    for (id, cpu) in [("small", 2), ("large", 8)] {
        let new = json!({ "id": id, "provider": "local", "cpu": cpu, "ram": 4096 });
        world.put("/machine", &new).await;
    }
    let plan = world.get("/autoscaling/plan").await.json();
    assert!(!plan["create"].as_array().unwrap().is_empty(), "{plan}");
    assert!(plan["create"][0]["why"].is_string());
    // A plan is only reported: nothing was begun.
    assert_eq!(world.get("/operation").await.json(), json!([]));
}
