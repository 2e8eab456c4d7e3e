//! What a caller that is limited to a project may put into the store, and how
//! much of a refused body is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::Version;
use serde_json::json;
use strata_identity::Caller;
use strata_server::core::{NodeFacts, Principal, StoreBounds};
use strata_store::Memory;
use strata_types::Role;

use crate::world::{Answer, World, caller};

const JSON: (&str, &str) = ("content-type", "application/json");

fn limited(name: &str) -> Caller {
    Caller {
        name: name.parse().unwrap(),
        projects: Some(vec!["default".parse().unwrap()]),
        ..caller(Role::Operator)
    }
}

async fn world() -> World {
    World::bounded(
        Arc::new(Memory::new()),
        StoreBounds {
            instances: 3,
            workloads: 2,
            kept_answers: 4,
            ..StoreBounds::default()
        },
    )
    .await
}

async fn put(world: &World, principal: Caller, path: &str, name: &str) -> Answer {
    let body = json!({ "name": name, "uri": "x" }).to_string();
    world.ask(principal, "PUT", path, &[JSON], body).await
}

#[tokio::test]
async fn project_has_so_many_workloads_and_instances() {
    let world = world().await;
    for (path, most) in [("/workload", 2), ("/instance", 3)] {
        for n in 0..most {
            let made = put(&world, limited("shop"), path, &format!("a{n}")).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
        let full = put(&world, limited("shop"), path, "more").await;
        full.refused(429, None);
        // Another token of the project finds it as full.
        let full = put(&world, limited("other"), path, "more").await;
        full.refused(429, None);
        // The same request again is not one more.
        let same = put(&world, limited("shop"), path, "a0").await;
        assert!([200, 201].contains(&same.status), "{same:?}");
        // A caller that is limited to no project is not bounded by it.
        let made = put(&world, caller(Role::Operator), path, "more").await;
        assert_eq!(made.status, 201, "{made:?}");
    }
}

/// A text of so many bytes in an environment.
fn environment(bytes: usize) -> serde_json::Value {
    json!([format!("TEXT={}", "x".repeat(bytes))])
}

#[tokio::test]
async fn project_has_so_many_bytes_in_the_store() {
    let bounds = StoreBounds {
        project_bytes: 50_000,
        ..StoreBounds::default()
    };
    let world = World::bounded(Arc::new(Memory::new()), bounds).await;
    let send = async |principal: Caller, method: &str, path: &str, body: serde_json::Value| {
        world
            .ask(principal, method, path, &[JSON], body.to_string())
            .await
    };
    let spec = |name: &str, bytes: usize| json!({ "name": name, "uri": "x", "environment": environment(bytes) });
    let secret = json!({ "name": "s", "value": "x".repeat(10_000) });
    let (workload, instance) = (spec("w", 10_000), spec("i", 10_000));
    for (path, body) in [
        ("/workload", workload),
        ("/instance", instance),
        ("/secret", secret),
    ] {
        let made = send(limited("shop"), "PUT", path, body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    // Another token of the project, and every way to add more.
    for (method, path, body) in [
        ("PUT", "/workload", spec("w2", 20_000)),
        ("PUT", "/instance", spec("i2", 20_000)),
        (
            "PUT",
            "/secret",
            json!({ "name": "s2", "value": "x".repeat(20_000) }),
        ),
        (
            "PATCH",
            "/workload/w",
            json!({ "environment": environment(30_000) }),
        ),
        (
            "PATCH",
            "/instance/i",
            json!({ "environment": environment(30_000) }),
        ),
        ("PATCH", "/secret/s", json!({ "value": "x".repeat(30_000) })),
    ] {
        let full = send(limited("other"), method, path, body).await;
        full.refused(429, None);
        assert!(full.text.contains("50000 is the most"), "{full:?}");
    }
    // One that is limited to no project, and what makes it less.
    let made = send(
        caller(Role::Operator),
        "PUT",
        "/workload",
        spec("w2", 20_000),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    let less = json!({ "environment": environment(9000) });
    let less = send(limited("shop"), "PATCH", "/workload/w", less).await;
    assert_eq!(less.status, 200, "{less:?}");
    let gone = send(limited("shop"), "DELETE", "/workload/w2", json!(null)).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    let made = send(limited("shop"), "PUT", "/workload", spec("w3", 10_000)).await;
    assert_eq!(made.status, 201, "{made:?}");
}

/// Those that are configured and those that nodes report, beside the usual.
#[tokio::test]
async fn ports_of_strata_are_not_for_callers_limited_to_projects() {
    let world = World::new().await;
    world.node("n1").await;
    let facts = NodeFacts {
        witness_port: Some(40_123),
        ..NodeFacts::default()
    };
    world.core.update_node_facts("n1", &facts).await.unwrap();
    for (n, (port, status)) in [
        (4789, 403),
        (51_820, 403),
        (7700, 403),
        (7710, 403),
        (7443, 403),
        (40_123, 403),
        (40_124, 201),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({
            "name": format!("i{n}"), "uri": "x", "status": "STOPPED",
            "ports": [format!("{port}:80")],
        });
        let body = body.to_string();
        let answer = world
            .ask(limited("shop"), "PUT", "/instance", &[JSON], body)
            .await;
        assert_eq!(answer.status, status, "{port}: {answer:?}");
    }
}

/// A client that adds what it received to the offset receives all, each once.
#[tokio::test]
async fn page_of_large_items_is_shorter_and_the_next_one_goes_on() {
    const MANY: usize = 200;
    let world = World::new().await;
    for n in 0..MANY {
        let body = json!({
            "name": format!("w{n}"), "uri": "x",
            "environment": environment(30_000), "labels": { "n": n.to_string() },
        });
        let made = world.put("/workload", &body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let mut names = std::collections::BTreeSet::new();
    let (mut offset, mut pages) = (0, 0);
    while offset < MANY {
        let path = format!("/workload?limit=1000&offset={offset}");
        let page = world.get(&path).await;
        assert_eq!(page.header("x-total-count"), Some("200"));
        assert!(page.text.len() <= (4 << 20) + 2, "{}", page.text.len());
        let items = page.json();
        let items = items.as_array().unwrap();
        assert!(!items.is_empty(), "at {offset}");
        for item in items {
            assert!(names.insert(item["name"].as_str().unwrap().to_owned()));
        }
        (offset, pages) = (offset + items.len(), pages + 1);
    }
    assert_eq!((names.len(), pages), (MANY, 2));
}

/// Each secret of a list has its users: what names it is known by an index, and
/// only so many are listed.
#[tokio::test]
async fn list_of_secrets_costs_no_look_at_every_specification() {
    const SECRETS: usize = 200;
    const INSTANCES: usize = 400;
    let world = World::new().await;
    for n in 0..SECRETS {
        let body = json!({ "name": format!("s{n}"), "value": "x" });
        let made = world.put("/secret", &body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let names: Vec<String> = (0..32).map(|n| format!("s{n}")).collect();
    for n in 0..INSTANCES {
        let body = json!({
            "name": format!("i{n}"), "uri": "x", "status": "STOPPED", "secrets": names,
        });
        let made = world.put("/instance", &body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let begin = std::time::Instant::now();
    let listed = world.get("/secret?limit=1000").await.json();
    let took = begin.elapsed();
    assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), SECRETS);
    for secret in listed {
        let name = secret["name"].as_str().unwrap().to_owned();
        let users = secret["usedBy"].as_array().map_or(0, Vec::len);
        let expected = if names.contains(&name) { 100 } else { 0 };
        assert_eq!(users, expected, "{secret}");
    }
    // The index follows changes.
    let none = json!({ "secrets": [] });
    for n in 1..INSTANCES {
        let changed = world.patch(&format!("/instance/i{n}"), &none).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
    let used = world.get("/secret/s0").await.json();
    assert_eq!(used["usedBy"], json!(["instance i0"]));
    world.delete("/secret/s0").await.refused(409, None);
    assert_eq!(world.delete("/instance/i0").await.status, 202);
    let unused = world.get("/secret/s0").await.json();
    assert_eq!(unused["usedBy"], json!([]));
    assert_eq!(world.delete("/secret/s0").await.status, 202);
}

#[tokio::test]
async fn quota_that_names_a_number_is_the_one_that_counts() {
    let world = world().await;
    let patch = json!({ "quota": { "instances": 5 } });
    let set = world.patch("/project/default", &patch).await;
    assert_eq!(set.status, 200, "{set:?}");
    for n in 0..5 {
        let made = put(&world, limited("shop"), "/instance", &format!("a{n}")).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let full = put(&world, limited("shop"), "/instance", "more").await;
    full.refused(429, None);
}

#[tokio::test]
async fn answers_are_kept_for_a_caller_up_to_a_bound_that_outlives_the_server() {
    let store = Arc::new(Memory::new());
    let bounds = StoreBounds {
        kept_answers: 4,
        ..StoreBounds::default()
    };
    let keyed = async |world: &World, principal: &str, key: &str| {
        let headers = [JSON, ("idempotency-key", key)];
        let body = json!({ "name": format!("{principal}-{key}"), "uri": "x" }).to_string();
        world
            .ask(limited(principal), "PUT", "/workload", &headers, body)
            .await
    };
    let world = World::bounded(store.clone(), bounds).await;
    for n in 0..4 {
        let made = keyed(&world, "ci", &format!("k{n}")).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let full = keyed(&world, "ci", "k4").await;
    full.refused(429, Some("Idempotency-Key"));
    let again = keyed(&world, "ci", "k0").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(keyed(&world, "other", "k0").await.status, 201);
    drop(world);
    let restarted = World::bounded(store, bounds).await;
    let full = keyed(&restarted, "ci", "k5").await;
    full.refused(429, Some("Idempotency-Key"));
}

/// An endless body, and how many bytes of it were read.
fn endless(read: &Arc<AtomicUsize>) -> Body {
    let read = read.clone();
    let part = Bytes::from(vec![b' '; 64 << 10]);
    Body::from_stream(futures_util::stream::repeat_with(move || {
        read.fetch_add(part.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(part.clone())
    }))
}

#[tokio::test]
async fn refused_body_is_not_read_to_its_end() {
    let world = World::new().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let read = Arc::new(AtomicUsize::new(0));
        let request = Request::put("/workload")
            .version(version)
            .header(JSON.0, JSON.1)
            .body(endless(&read))
            .unwrap();
        let answer = world.send(Some(caller(Role::Operator)), request).await;
        assert_eq!(answer.status(), 413);
        let read = read.load(Ordering::Relaxed);
        assert!(read <= 1 << 20, "{read} bytes were read");
    }
    // A body that announces its length beforehand is not read at all.
    let large = vec![b' '; 10 << 20];
    let request = Request::put("/workload")
        .version(Version::HTTP_2)
        .header(JSON.0, JSON.1)
        .body(Body::from(large))
        .unwrap();
    let answer = world.send(Some(caller(Role::Operator)), request).await;
    assert_eq!(answer.status(), 413);
}

/// With a priority an instance comes before those of others.
#[tokio::test]
async fn limited_callers_do_not_come_before_others() {
    let world = World::new().await;
    let send = async |principal: Caller, method: &str, path: &str, body: serde_json::Value| {
        let body = body.to_string();
        world.ask(principal, method, path, &[JSON], body).await
    };
    let shop = || limited("shop");
    let with = |name: &str, priority: i32| json!({ "name": name, "uri": "x", "placement": { "priority": priority } });
    let field = Some("placement.priority");
    for path in ["/instance", "/workload"] {
        let refused = send(shop(), "PUT", path, with("high", 1)).await;
        refused.refused(403, field);
        let made = send(shop(), "PUT", path, with("low", -5)).await;
        assert_eq!(made.status, 201, "{made:?}");
        let path = format!("{path}/low");
        let higher = json!({ "placement": { "priority": 1 } });
        let refused = send(shop(), "PATCH", &path, higher).await;
        refused.refused(403, field);
    }
    // What an admin has set stays, and is for its instances.
    for path in ["/instance", "/workload"] {
        let made = send(caller(Role::Admin), "PUT", path, with("admins", 7)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let kept = json!({ "labels": { "a": "b" } });
    let changed = send(shop(), "PATCH", "/instance/admins", kept).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let of = json!({ "workloadId": "admins", "project": "default", "name": "w" });
    let made = send(shop(), "PUT", "/instance", of).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["placement"]["priority"], 7);
}

/// A volume of a node outlives the instance that names it first, and its
/// project: without a size one token would fill the disk that all share.
#[tokio::test]
async fn volumes_of_nodes_have_a_size_for_limited_callers() {
    let world = World::new().await;
    let record = |name: &str| {
        let admin = Principal::from(&caller(Role::Admin));
        world.core.instance(&admin, None, name).unwrap()
    };
    let put = async |principal: Caller, name: &str| {
        let body = json!({ "name": name, "uri": "x", "volumes": ["data:/data"] });
        let body = body.to_string();
        let made = world
            .ask(principal, "PUT", "/instance", &[JSON], body)
            .await;
        assert_eq!(made.status, 201, "{made:?}");
    };
    put(limited("shop"), "limited").await;
    assert!(record("limited").sized_volumes);
    assert_eq!(record("limited").spec.resources.disk, 4);
    put(caller(Role::Operator), "operators").await;
    assert!(!record("operators").sized_volumes);
    // One that a limited caller changes names volumes of that caller.
    let body = json!({ "volumes": ["data:/data", "more:/more"] }).to_string();
    let path = "/instance/operators";
    let changed = world
        .ask(limited("shop"), "PATCH", path, &[JSON], body)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert!(record("operators").sized_volumes);
}
