//! Who may do what, and see what.

use axum::body::Body;
use axum::extract::Request;
use serde_json::json;
use strata_identity::Caller;
use strata_types::Role;

use crate::world::{World, caller};

const KIND: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn anonymous_and_nodes_see_nothing() {
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
async fn roles_of_viewer_and_operator_are_enforced() {
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
    let dir = json!({ "uri": "x", "volumes": ["/etc:/x"] }).to_string();
    let answer = world
        .ask(
            caller(Role::Operator),
            "PUT",
            "/instance",
            &[KIND],
            dir.clone(),
        )
        .await;
    answer.refused(403, None);
    let answer = world
        .ask(caller(Role::Admin), "PUT", "/instance", &[KIND], dir)
        .await;
    assert_eq!(answer.status, 201);
}

/// What an operator may not begin it may not alter or end either.
#[tokio::test]
async fn operator_does_not_manage_what_an_admin_gave_access_to_the_host() {
    let world = World::new().await;
    world.node("n1").await;
    for (name, more) in [
        ("dir", json!({ "volumes": ["/etc:/host"] })),
        (
            "capable",
            json!({ "security": { "addCapabilities": ["NET_ADMIN"] } }),
        ),
        ("users", json!({ "security": { "userNamespace": false } })),
    ] {
        let mut body = json!({ "id": name, "name": name, "uri": "x" });
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        world.put("/instance", &body).await;
        world.put("/workload", &body).await;
    }
    let before = world.everything().await;
    let operator = async |method: &str, path: &str, body: &str| {
        let body = body.to_owned();
        let answer = world.ask(caller(Role::Operator), method, path, &[KIND], body);
        answer.await
    };
    for name in ["dir", "capable", "users"] {
        let path = format!("/instance/{name}");
        for body in [
            r#"{ "status": "STOPPED" }"#,
            r#"{ "name": "other" }"#,
            r#"{ "volumes": [], "security": {} }"#,
            r#"{ "resources": { "cpu": 100 } }"#,
        ] {
            operator("PATCH", &path, body).await.refused(403, None);
        }
        operator("DELETE", &path, "").await.refused(403, None);
        let path = format!("/workload/{name}");
        let plain = r#"{ "volumes": [], "security": {} }"#;
        operator("PATCH", &path, plain).await.refused(403, None);
        let cascade = format!("{path}?cascade=true");
        operator("DELETE", &cascade, "").await.refused(403, None);
    }
    assert_eq!(world.everything().await, before);
    // An image of the node's own disk alone is no access to the host.
    let image = json!({ "id": "image", "name": "image", "uri": "oci:/srv/image:v1" });
    world.put("/instance", &image).await;
    let stop = r#"{ "status": "STOPPED" }"#;
    let stopped = operator("PATCH", "/instance/image", stop).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    // An admin stops it, and an operator does not start it.
    let admin = world.ask(caller(Role::Admin), "PATCH", "/instance/dir", &[KIND], stop);
    assert_eq!(admin.await.status, 200);
    let start = r#"{ "status": "RUNNING" }"#;
    let refused = operator("PATCH", "/instance/dir", start).await;
    refused.refused(403, None);
}

/// A workload is deleted with its instances, which keep what they were made
/// with.
#[tokio::test]
async fn operator_does_not_delete_an_admins_instances_with_their_workload() {
    let world = World::new().await;
    let body = json!({ "id": "w", "name": "w", "uri": "x", "volumes": ["/etc:/host"] });
    world.put("/workload", &body).await;
    let body = json!({ "id": "i", "name": "i", "workloadId": "w" });
    world.put("/instance", &body).await;
    let plain = r#"{ "volumes": [] }"#;
    let admin = world.ask(caller(Role::Admin), "PATCH", "/workload/w", &[KIND], plain);
    assert_eq!(admin.await.status, 200);
    let path = "/workload/w?cascade=true";
    let refused = world.ask(caller(Role::Operator), "DELETE", path, &[KIND], "");
    refused.await.refused(403, None);
    // Nor is it closed: an instance can be made from it.
    let body = json!({ "id": "j", "name": "j", "workloadId": "w" });
    world.put("/instance", &body).await;
}

#[tokio::test]
async fn viewer_does_not_see_secrets() {
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
        let facts = world.ask(caller(Role::Viewer), "GET", path, &[], "").await;
        assert_eq!(facts.status, 200);
        assert!(!facts.text.contains("secret"), "{path}: {}", facts.text);
        let facts = world
            .ask(caller(Role::Operator), "GET", path, &[], "")
            .await;
        assert!(facts.text.contains("secret"), "{path}: {}", facts.text);
    }
    let facts = world
        .ask(caller(Role::Viewer), "GET", "/instance/i", &[], "")
        .await;
    assert_eq!(facts.json()["environment"], json!(["KEY=***", "EMPTY=***"]));
}

#[tokio::test]
async fn project_limited_caller_stays_in_its_project() {
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
