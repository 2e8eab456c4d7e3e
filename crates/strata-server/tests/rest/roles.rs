//! Who may do what, and see what.

use axum::body::Body;
use axum::extract::Request;
use serde_json::json;
use strata_identity::Caller;
use strata_types::Role;

use crate::world::{World, caller};

const KIND: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn strangers_and_nodes_see_nothing() {
    let world = World::new().await;
    for path in [
        "/instance",
        "/instance/x/logs",
        "/workload/x",
        "/node",
        "/project",
        "/event",
        "/openapi.json",
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(world.send(None, request).await.status(), 401, "{path}");
        let node = world.ask(caller(Role::Node), "GET", path, &[], "").await;
        node.refused(403, None);
    }
    // Not even what can be done.
    let request = Request::post("/instance").body(Body::empty()).unwrap();
    assert_eq!(world.send(None, request).await.status(), 403);
}

#[tokio::test]
async fn a_viewer_looks_and_an_operator_operates() {
    let world = World::new().await;
    world.node("n1").await;
    world.instance("web").await;
    let before = world.everything().await;
    for (method, path, roles) in [
        ("PUT", "/instance", vec![Role::Viewer]),
        ("PATCH", "/instance/web", vec![Role::Viewer]),
        ("DELETE", "/instance/web", vec![Role::Viewer]),
        ("PUT", "/workload", vec![Role::Viewer]),
        ("PATCH", "/node/n1", vec![Role::Viewer]),
        ("DELETE", "/node/n1", vec![Role::Viewer, Role::Operator]),
        ("PUT", "/project", vec![Role::Viewer, Role::Operator]),
        (
            "PATCH",
            "/project/default",
            vec![Role::Viewer, Role::Operator],
        ),
        (
            "DELETE",
            "/project/default",
            vec![Role::Viewer, Role::Operator],
        ),
    ] {
        for role in roles {
            let answer = world.ask(caller(role), method, path, &[KIND], "{}").await;
            answer.refused(403, None);
        }
    }
    assert_eq!(world.everything().await, before);
    let folder = json!({ "uri": "x", "volumes": ["/etc:/x"] }).to_string();
    let answer = world
        .ask(
            caller(Role::Operator),
            "PUT",
            "/instance",
            &[KIND],
            folder.clone(),
        )
        .await;
    answer.refused(403, None);
    let answer = world
        .ask(caller(Role::Admin), "PUT", "/instance", &[KIND], folder)
        .await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn a_viewer_does_not_see_secrets() {
    let world = World::new().await;
    let body =
        json!({ "id": "i", "name": "x", "uri": "x", "environment": ["KEY=secret=1", "EMPTY="] });
    world.put("/instance", &body).await;
    world.put("/workload", &body).await;
    let vm = json!({ "id": "vm", "uri": "/disk", "type": "VM", "userData": "secret" });
    world.put("/instance", &vm).await;
    for path in [
        "/instance",
        "/instance/i",
        "/instance/vm",
        "/workload",
        "/workload/i",
    ] {
        let seen = world.ask(caller(Role::Viewer), "GET", path, &[], "").await;
        assert_eq!(seen.status, 200);
        assert!(!seen.text.contains("secret"), "{path}: {}", seen.text);
        let seen = world
            .ask(caller(Role::Operator), "GET", path, &[], "")
            .await;
        assert!(seen.text.contains("secret"), "{path}: {}", seen.text);
    }
    let seen = world
        .ask(caller(Role::Viewer), "GET", "/instance/i", &[], "")
        .await;
    assert_eq!(seen.json()["environment"], json!(["KEY=***", "EMPTY=***"]));
}

#[tokio::test]
async fn who_is_limited_to_a_project_stays_in_it() {
    let world = World::new().await;
    world.node("n1").await;
    world.put("/project", &json!({ "name": "team" })).await;
    world.instance("ours").await;
    world
        .put("/workload", &json!({ "name": "ours", "uri": "x" }))
        .await;
    let limited = Caller {
        projects: Some(vec!["team".parse().unwrap()]),
        ..caller(Role::Operator)
    };
    let ask = |method: &'static str, path: &'static str, body: String| {
        let (world, limited) = (&world, limited.clone());
        async move { world.ask(limited, method, path, &[KIND], body).await }
    };
    for path in ["/instance", "/workload"] {
        let list = ask("GET", path, String::new()).await;
        assert_eq!(
            (list.json(), list.header("x-total-count")),
            (json!([]), Some("0"))
        );
    }
    for path in [
        "/instance/ours",
        "/workload/ours",
        "/project/default",
        "/instance/ours/placement",
    ] {
        ask("GET", path, String::new()).await.refused(404, None);
    }
    ask("DELETE", "/instance/ours", String::new())
        .await
        .refused(404, None);
    ask("PATCH", "/workload/ours", "{}".into())
        .await
        .refused(404, None);
    let body = json!({ "name": "mine", "uri": "x" }).to_string();
    ask("PUT", "/instance", body.clone())
        .await
        .refused(403, None);
    assert_eq!(ask("PUT", "/instance?project=team", body).await.status, 201);
    let drain = json!({ "draining": true }).to_string();
    ask("PATCH", "/node/n1", drain).await.refused(403, None);
    assert_eq!(world.get("/node/n1").await.json()["draining"], false);
    let projects = ask("GET", "/project", String::new()).await.json();
    assert_eq!(
        (projects.as_array().unwrap().len(), &projects[0]["name"]),
        (1, &json!("team"))
    );
    let events = ask("GET", "/event", String::new()).await.text;
    assert!(
        events.contains("mine") && !events.contains("ours"),
        "{events}"
    );
}
