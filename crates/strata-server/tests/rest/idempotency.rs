//! `Idempotency-Key`: a request that comes twice has its effect once.

use std::sync::Arc;

use serde_json::{Value, json};
use strata_store::{Memory, Store, Transaction};
use strata_types::Role;
use strata_workflow::testing::{CrashPoint, CrashingStore};

use crate::world::{Answer, World, caller};

async fn keyed(world: &World, method: &str, path: &str, key: &str, body: &Value) -> Answer {
    world
        .with_body(method, path, &[("idempotency-key", key)], body)
        .await
}

#[tokio::test]
async fn idempotent_request_replays_the_first_response() {
    let world = World::new().await;
    // Without a name each request would make another instance.
    let body = json!({ "uri": "x" });
    let first = keyed(&world, "PUT", "/instance/", "a-1", &body).await;
    let again = keyed(&world, "PUT", "/instance/", "a-1", &body).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.text, again.text);
    for name in ["location", "etag", "content-type"] {
        assert_eq!(first.header(name), again.header(name), "{name}");
    }
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.header("idempotency-replayed"), None);
    let list = world.get("/instance").await;
    assert_eq!(list.header("x-total-count"), Some("1"));
    keyed(&world, "PUT", "/instance/", "a-2", &body).await;
    let list = world.get("/instance").await;
    assert_eq!(list.header("x-total-count"), Some("2"));
}

#[tokio::test]
async fn idempotency_key_is_bound_to_request_and_caller() {
    let world = World::new().await;
    let body = json!({ "name": "web", "uri": "x" });
    keyed(&world, "PUT", "/instance", "k", &body).await;
    let other = json!({ "name": "web2", "uri": "x" });
    let refused = keyed(&world, "PUT", "/instance", "k", &other).await;
    refused.refused(422, Some("Idempotency-Key"));
    let elsewhere = keyed(&world, "PUT", "/workload", "k", &body).await;
    elsewhere.refused(422, Some("Idempotency-Key"));
    assert_eq!(world.get("/workload").await.json(), json!([]));
    // Another caller's key is another key.
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
    ];
    let operator = caller(Role::Operator);
    let answer = world
        .ask(operator, "PUT", "/workload", &headers, body.to_string())
        .await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn changes_and_deletions_are_repeated_without_effect() {
    let world = World::new().await;
    world
        .put(
            "/instance",
            &json!({ "id": "i", "uri": "x", "status": "STOPPED" }),
        )
        .await;
    let patch = json!({ "uri": "y" });
    let first = keyed(&world, "PATCH", "/instance/i", "p", &patch).await;
    assert_eq!(first.json()["uri"], "y");
    world.patch("/instance/i", &json!({ "uri": "z" })).await;
    let again = keyed(&world, "PATCH", "/instance/i", "p", &patch).await;
    assert_eq!(again.text, first.text);
    assert_eq!(world.get("/instance/i").await.json()["uri"], "z");

    let delete = |key: &'static str| {
        let headers = [("idempotency-key", key)];
        let world = &world;
        async move {
            world
                .ask(caller(Role::Admin), "DELETE", "/instance/i", &headers, "")
                .await
        }
    };
    assert_eq!(delete("d").await.status, 202);
    assert_eq!(delete("d").await.status, 202);
    delete("e").await.refused(404, None);
    // Refusals are answers, too.
    world
        .put("/instance", &json!({ "id": "i", "uri": "x" }))
        .await;
    delete("e").await.refused(404, None);
    assert_eq!(world.get("/instance/i").await.status, 200);
}

#[tokio::test]
async fn keys_outlive_the_server_and_are_bound_to_a_lease() {
    let store = Arc::new(Memory::new());
    let body = json!({ "uri": "x" });
    let first = {
        let world = World::over(store.clone()).await;
        keyed(&world, "PUT", "/instance/", "k", &body).await
    };
    let world = World::over(store.clone()).await;
    let again = keyed(&world, "PUT", "/instance/", "k", &body).await;
    assert_eq!(first.text, again.text);
    let stored = store.list("idempotency/").await.unwrap().entries;
    assert_eq!(stored.len(), 1);
    assert!(stored[0].lease.is_some());
}

#[tokio::test]
async fn many_at_once_have_one_effect() {
    let world = World::new().await;
    let body = json!({ "uri": "x" });
    let all = (0..16).map(|_| keyed(&world, "PUT", "/instance/", "k", &body));
    let all = futures_util::future::join_all(all).await;
    let made: Vec<_> = all.iter().filter(|answer| answer.status == 201).collect();
    assert!(!made.is_empty());
    assert!(made.iter().all(|answer| answer.text == made[0].text));
    for busy in all.iter().filter(|answer| answer.status != 201) {
        busy.refused(409, Some("Idempotency-Key"));
        assert_eq!(busy.header("retry-after"), Some("1"));
    }
    let list = world.get("/instance").await;
    assert_eq!(list.header("x-total-count"), Some("1"));
}

#[tokio::test]
async fn invalid_idempotency_key_is_refused() {
    let world = World::new().await;
    let long = "k".repeat(256);
    for key in ["", "two words", &long] {
        let answer = keyed(&world, "PUT", "/instance", key, &json!({ "uri": "x" })).await;
        answer.refused(400, Some("Idempotency-Key"));
    }
    assert_eq!(world.get("/instance").await.json(), json!([]));
}

/// As if the server that claimed the keys had ended long ago.
async fn abandon(store: &Memory) {
    for entry in store.list("idempotency/").await.unwrap().entries {
        let mut record: Value = serde_json::from_slice(&entry.value).unwrap();
        record["at_ms"] = json!(0);
        let put = Transaction::new().put_with(entry.key, record.to_string(), entry.lease);
        store.commit(put).await.unwrap();
    }
}

#[tokio::test]
async fn request_has_its_effect_once_wherever_its_server_dies() {
    // Without a name each request would make another.
    let body = json!({ "uri": "x", "status": "STOPPED" });
    for death in [CrashPoint::BeforeEffect, CrashPoint::AfterEffect] {
        let mut died = 0;
        for commits in 0..6 {
            let store = Arc::new(Memory::new());
            drop(World::over(store.clone()).await);
            let crashing = Arc::new(CrashingStore::new(store.clone(), commits, death));
            let world = World::over(crashing.clone()).await;
            let dead = tokio::select! {
                () = crashing.crashed() => true,
                first = keyed(&world, "PUT", "/instance/", "k", &body) => {
                    assert_eq!(first.status, 201);
                    false
                }
            };
            died += usize::from(dead);
            drop(world);
            abandon(&store).await;
            let world = World::over(store.clone()).await;
            let answer = keyed(&world, "PUT", "/instance/", "k", &body).await;
            assert_eq!(answer.status, 201, "{commits} {death:?}");
            let all = world.get("/instance").await;
            assert_eq!(
                all.json().as_array().unwrap().len(),
                1,
                "{commits} {death:?}"
            );
            assert_eq!(all.json()[0]["id"], answer.json()["id"]);
            let location = format!("/instance/{}", answer.json()["id"].as_str().unwrap());
            assert_eq!(answer.header("location"), Some(location.as_str()));
            // And what was deleted since is not made again.
            let id = all.json()[0]["id"].as_str().unwrap().to_owned();
            world.delete(&format!("/instance/{id}")).await;
            abandon(&store).await;
            keyed(&world, "PUT", "/instance/", "k", &body).await;
            assert_eq!(world.get("/instance").await.json(), json!([]));
        }
        assert!(died >= 3, "the claim, the effect and the answer: {died}");
    }
}

/// What there is before each trial, and a write with its answer.
struct Write {
    method: &'static str,
    path: &'static str,
    body: Value,
    status: u16,
    /// What others do after it, and what a second effect would change again.
    meanwhile: Option<(&'static str, Value)>,
}

fn write(method: &'static str, path: &'static str, body: Value, status: u16) -> Write {
    Write {
        method,
        path,
        body,
        status,
        meanwhile: None,
    }
}

impl Write {
    fn before(mut self, path: &'static str, patch: Value) -> Self {
        self.meanwhile = Some((path, patch));
        self
    }
}

fn writes() -> Vec<Write> {
    vec![
        write("PATCH", "/instance/i", json!({ "uri": "y" }), 200)
            .before("/instance/i", json!({ "uri": "z" })),
        write("DELETE", "/instance/i", Value::Null, 202),
        write("PATCH", "/workload/w", json!({ "uri": "y" }), 200)
            .before("/workload/w", json!({ "uri": "z" })),
        write("DELETE", "/workload/w", Value::Null, 202),
        write("PUT", "/project", json!({ "name": "new" }), 201),
        write(
            "PATCH",
            "/project/p",
            json!({ "privilegedPorts": true }),
            200,
        )
        .before("/project/p", json!({ "privilegedPorts": false })),
        write("DELETE", "/project/p", Value::Null, 202),
        write(
            "PUT",
            "/secret",
            json!({ "name": "new", "value": "a" }),
            201,
        ),
        write("PATCH", "/secret/s", json!({ "value": "b" }), 200)
            .before("/secret/s", json!({ "value": "c" })),
        write("DELETE", "/secret/s", Value::Null, 202),
        write(
            "PUT",
            "/machine",
            json!({ "id": "new", "provider": "sim" }),
            201,
        ),
        write(
            "PATCH",
            "/machine/m",
            json!({ "labels": { "a": "1" } }),
            200,
        )
        .before("/machine/m", json!({ "labels": { "a": "2" } })),
        write("DELETE", "/machine/m", Value::Null, 202),
        write("PATCH", "/autoscaling", json!({ "least": 1 }), 200)
            .before("/autoscaling", json!({ "least": 2 })),
    ]
}

async fn prepared() -> Arc<Memory> {
    let store = Arc::new(Memory::new());
    let world = World::over(store.clone()).await;
    for (path, body) in [
        (
            "/instance",
            json!({ "id": "i", "uri": "x", "status": "STOPPED" }),
        ),
        ("/workload", json!({ "id": "w", "name": "w", "uri": "x" })),
        ("/project", json!({ "name": "p" })),
        ("/secret", json!({ "name": "s", "value": "a" })),
        ("/machine", json!({ "id": "m", "provider": "sim" })),
    ] {
        let made = world.put(path, &body).await;
        assert_eq!(made.status, 201, "{path} {made:?}");
    }
    store
}

/// All records but those of keys and of servers.
async fn records(store: &Memory) -> Vec<(String, u64)> {
    let all = store.list("").await.unwrap().entries.into_iter();
    let own = all.filter(|entry| !entry.key.starts_with("idempotency/"));
    own.map(|entry| (entry.key, entry.changed)).collect()
}

#[tokio::test]
async fn every_keyed_write_has_its_effect_once_wherever_its_server_dies() {
    for request in writes() {
        let name = format!("{} {}", request.method, request.path);
        let mut answered_late = 0;
        for death in [CrashPoint::BeforeEffect, CrashPoint::AfterEffect] {
            for commits in 0..5 {
                let store = prepared().await;
                let crashing = Arc::new(CrashingStore::new(store.clone(), commits, death));
                let world = World::over(crashing.clone()).await;
                let before = records(&store).await;
                let dead = tokio::select! {
                    () = crashing.crashed() => true,
                    first = keyed(&world, request.method, request.path, "k", &request.body) => {
                        assert_eq!(first.status, request.status, "{name} {first:?}");
                        false
                    }
                };
                drop(world);
                let had_effect = records(&store).await != before;
                abandon(&store).await;
                let world = World::over(store.clone()).await;
                // What is deleted in several steps may be half of the way.
                let had_effect = match request.method {
                    "DELETE" => world.get(request.path).await.status == 404,
                    _ => had_effect,
                };
                if had_effect && let Some((path, patch)) = &request.meanwhile {
                    let patched = world.patch(path, patch).await;
                    assert_eq!(patched.status, 200, "{name} {patched:?}");
                }
                let after = records(&store).await;
                let repeat = || keyed(&world, request.method, request.path, "k", &request.body);
                let answer = repeat().await;
                let at = format!("{name}: {commits} {death:?} {answer:?}");
                assert_eq!(answer.status, request.status, "{at}");
                if had_effect {
                    answered_late += usize::from(dead);
                    assert_eq!(records(&store).await, after, "a second effect: {at}");
                }
                let again = repeat().await;
                assert_eq!((again.status, again.text), (answer.status, answer.text));
            }
        }
        assert!(
            answered_late > 0,
            "{name}: its server died after its effect"
        );
    }
}

#[tokio::test]
async fn large_answer_is_made_again_and_not_kept() {
    let store = Arc::new(Memory::new());
    let world = World::over(store.clone()).await;
    let lines: Vec<String> = (0..90)
        .map(|n| format!("NAME_{n}={}", "x".repeat(100)))
        .collect();
    let body = json!({ "uri": "x", "status": "STOPPED", "environment": lines });
    let first = keyed(&world, "PUT", "/instance/", "k", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert!(first.text.len() > 8000);
    let stored = store.list("idempotency/").await.unwrap().entries;
    assert!(
        stored[0].value.len() < 1024,
        "{} bytes are kept",
        stored[0].value.len()
    );
    let again = keyed(&world, "PUT", "/instance/", "k", &body).await;
    assert_eq!((again.status, &again.json()), (201, &first.json()));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}
