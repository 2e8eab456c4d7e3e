//! Backups of a server that makes none, and when backups are made.

use serde_json::json;
use strata_types::Role;

use crate::world::{World, caller};

#[tokio::test]
async fn server_without_a_repository_refuses_all_backup_routes() {
    let world = World::new().await;
    let empty = json!({});
    let answers = [
        world.get("/backup").await,
        world.get("/backup/latest").await,
        world.post("/backup", &empty).await,
        world.post("/backup/latest/restore", &empty).await,
        world.post("/backup/latest/verify", &empty).await,
        world
            .post("/backup/prune", &json!({ "keep": {"last": 1} }))
            .await,
        world.post("/backup/prune?dryRun=true", &empty).await,
    ];
    for answer in answers {
        let problem = answer.refused(409, None);
        assert!(problem["hint"].as_str().unwrap().contains("[backup]"));
    }
    for (path, bad, field) in [
        ("/backup", json!({ "bytesPerSecond": 0 }), "bytesPerSecond"),
        ("/backup", json!({ "verify": false }), "verify"),
        ("/backup/x/restore", json!({ "path": "a" }), "volume"),
        (
            "/backup/x/restore",
            json!({ "volume": "a", "as": "A B" }),
            "as",
        ),
        ("/backup/x/verify", json!({ "percent": 0 }), "percent"),
        ("/backup/x/verify", json!({ "percent": 101 }), "percent"),
        (
            "/backup/prune",
            json!({ "keep": {"yearly": 1} }),
            "keep.yearly",
        ),
    ] {
        world.post(path, &bad).await.refused(422, Some(field));
    }
    assert_eq!(world.get("/operation").await.json(), json!([]));
}

#[tokio::test]
async fn backup_schedule_shows_its_next_run_and_is_removed() {
    let world = World::new().await;
    assert_eq!(world.get("/backup-schedule").await.json(), json!([]));
    let nightly = json!({ "name": "nightly", "when": "30 2 * * *", "keep": {"daily": 7} });
    let made = world.put("/backup-schedule", &nightly).await;
    assert_eq!(made.status, 200, "{made:?}");
    let told = made.json();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let next = u128::from(told["nextAtMs"].as_u64().unwrap());
    assert!(next > now && next < now + 24 * 3600 * 1000 + 60_000);
    assert_eq!(next % (24 * 3600 * 1000), (2 * 60 + 30) * 60 * 1000);
    assert_eq!(told.get("lastAtMs"), None);
    assert_eq!(world.get("/backup-schedule/nightly").await.json(), told);

    // What was sent can be sent back; what the server knows better it keeps.
    let mut again = told.clone();
    again["when"] = json!("@hourly");
    again["paused"] = json!(true);
    again["lastAtMs"] = json!(1);
    let again = world.put("/backup-schedule/", &again).await.json();
    assert_eq!(again.get("lastAtMs"), None);
    assert_eq!(again["nextAtMs"].as_u64().unwrap() % 3_600_000, 0);

    for (bad, field) in [
        (json!({ "name": "x" }), "when"),
        (json!({ "name": "x", "when": "" }), "when"),
        (json!({ "name": "x", "when": "every night" }), "when"),
        (json!({ "name": "x", "when": "61 * * * *" }), "when"),
        (json!({ "name": "x", "when": "0 0 31 2 *" }), "when"),
        (json!({ "name": "X Y", "when": "@daily" }), "name"),
        (
            json!({ "name": "x", "when": "@daily", "keep": {"last": -1} }),
            "keep.last",
        ),
    ] {
        let answer = world.put("/backup-schedule", &bad).await;
        answer.refused(422, Some(field));
    }
    let list = world.get("/backup-schedule?limit=5").await;
    assert_eq!(list.header("x-total-count"), Some("1"));
    let denied = world
        .ask(
            caller(Role::Operator),
            "DELETE",
            "/backup-schedule/nightly",
            &[],
            "",
        )
        .await;
    assert_eq!(denied.status, 403);
    assert_eq!(world.delete("/backup-schedule/nightly").await.status, 202);
    for path in ["/backup-schedule/nightly", "/backup-schedule/A%20B"] {
        world.get(path).await.refused(404, None);
        world.delete(path).await.refused(404, None);
    }
}
