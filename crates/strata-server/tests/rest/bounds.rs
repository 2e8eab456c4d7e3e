//! What a caller that is limited to a project may put into the store, and how
//! much of a refused body is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::Version;
use serde_json::json;
use strata_identity::Caller;
use strata_server::core::StoreBounds;
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
        },
    )
    .await
}

async fn put(world: &World, who: Caller, path: &str, name: &str) -> Answer {
    let body = json!({ "name": name, "uri": "x" }).to_string();
    world.ask(who, "PUT", path, &[JSON], body).await
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
        // Whoever is limited to no project is not bounded by it.
        let made = put(&world, caller(Role::Operator), path, "more").await;
        assert_eq!(made.status, 201, "{made:?}");
    }
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
    let keyed = async |world: &World, who: &str, key: &str| {
        let headers = [JSON, ("idempotency-key", key)];
        let body = json!({ "name": format!("{who}-{key}"), "uri": "x" }).to_string();
        world
            .ask(limited(who), "PUT", "/workload", &headers, body)
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
    // A body that says its length beforehand is not asked for at all.
    let large = vec![b' '; 10 << 20];
    let request = Request::put("/workload")
        .version(Version::HTTP_2)
        .header(JSON.0, JSON.1)
        .body(Body::from(large))
        .unwrap();
    let answer = world.send(Some(caller(Role::Operator)), request).await;
    assert_eq!(answer.status(), 413);
}
