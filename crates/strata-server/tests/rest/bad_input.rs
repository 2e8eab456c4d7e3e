//! Bad input of every kind: a clear problem with the field, and nothing
//! changed afterwards.

use serde_json::{Value, json};
use strata_types::Role;

use crate::world::{World, caller};

async fn furnished() -> World {
    let world = World::new().await;
    world.node("n1").await;
    let stopped = json!({ "id": "i", "name": "web", "uri": "x", "status": "STOPPED" });
    world.put("/instance", &stopped).await;
    world
        .put(
            "/workload",
            &json!({ "id": "w", "name": "web", "uri": "x" }),
        )
        .await;
    world.put("/project", &json!({ "name": "team" })).await;
    world
}

#[tokio::test]
async fn invalid_input_is_refused_with_its_field() {
    let world = furnished().await;
    let before = world.everything().await;
    let many = |text: &str| Value::Array(vec![json!(text); 101]);
    let cases = [
        (json!({ "uri": "" }), "uri"),
        (json!({ "uri": 1 }), "uri"),
        (json!({ "uri": "a\u{0}b" }), "uri"),
        (json!({ "environment": ["A"] }), "environment[0]"),
        (json!({ "environment": ["A=1", "=2"] }), "environment[1]"),
        (json!({ "environment": many("A=1") }), "environment"),
        (json!({ "environment": "A=1" }), "environment"),
        (json!({ "ports": ["80"] }), "ports[0]"),
        (json!({ "ports": ["80:80", "80:81"] }), "ports[1]"),
        (json!({ "ports": ["70000:80"] }), "ports[0]"),
        (json!({ "ports": many("80:80") }), "ports"),
        (json!({ "resources": {"cpu": -1} }), "resources.cpu"),
        (json!({ "resources": {"memory": 1} }), "resources.memory"),
        (json!({ "resources": {"cpu": "1"} }), "resources.cpu"),
        (
            json!({ "resources": {"cpu": 4_000_000_000_u64} }),
            "resources.cpu",
        ),
        (json!({ "resources": {"gpu": 1} }), "resources.gpu"),
        (json!({ "volumes": ["x"] }), "volumes[0]"),
        (json!({ "restart": "sometimes" }), "restart"),
        (json!({ "health": {} }), "health"),
        (json!({ "labels": {"": "x"} }), "labels"),
        (json!({ "placement": {"colour": 1} }), "placement.colour"),
        (
            json!({ "security": {"addCapabilities": ["FLY"]} }),
            "security.addCapabilities",
        ),
        (json!({ "colour": "red" }), "colour"),
        (json!({ "name": "Not A Name" }), "name"),
        (json!({ "name": 1 }), "name"),
        (json!({ "name": null }), "name"),
    ];
    for (bad, field) in &cases {
        for path in ["/instance/i", "/workload/w"] {
            world.patch(path, bad).await.refused(422, Some(field));
        }
        for path in ["/instance", "/workload"] {
            let mut body = json!({ "name": "new", "uri": "x" });
            let fields = body.as_object_mut().unwrap();
            fields.extend(bad.as_object().unwrap().clone());
            world.put(path, &body).await.refused(422, Some(field));
        }
    }
    for (bad, field) in [
        (json!({ "id": "x" }), "id"),
        (json!({ "type": "VM" }), "type"),
        (json!({ "node": "n1" }), "node"),
        (json!({ "project": "team" }), "project"),
        (json!({ "generation": 1 }), "generation"),
        (json!({ "status": "FAILED" }), "status"),
        (json!({ "status": 1 }), "status"),
        (json!([]), "body"),
        (json!("x"), "body"),
        (Value::Null, "body"),
    ] {
        world
            .patch("/instance/i", &bad)
            .await
            .refused(422, Some(field));
    }
    for (bad, field) in [
        (json!({}), "uri"),
        (json!({ "uri": "x", "id": "a/b" }), "id"),
        (json!({ "uri": "https://x" }), "uri"),
        (json!({ "uri": "x@sha256:zz" }), "uri"),
        (json!({ "uri": "x", "type": "BOX" }), "type"),
        (json!({ "uri": "x", "status": "CRASHED" }), "status"),
        (json!({ "uri": "x", "project": "A" }), "project"),
        (json!({ "uri": "x", "ip": "10.0.0.1" }), "ip"),
    ] {
        world.put("/instance", &bad).await.refused(422, Some(field));
    }
    world
        .put("/workload", &json!({ "uri": "x" }))
        .await
        .refused(422, Some("name"));
    world
        .put("/project", &json!({}))
        .await
        .refused(422, Some("name"));
    world
        .put("/project", &json!({ "name": "A" }))
        .await
        .refused(422, Some("name"));
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn unreadable_body_is_refused() {
    let world = furnished().await;
    let before = world.everything().await;
    let json_kind = ("content-type", "application/json");
    let routes = [
        ("PUT", "/instance"),
        ("PATCH", "/instance/i"),
        ("PUT", "/workload"),
        ("PATCH", "/workload/w"),
        ("PUT", "/project"),
        ("PATCH", "/project/team"),
        ("PATCH", "/node/n1"),
    ];
    for (method, path) in routes {
        let send = |headers: Vec<(&'static str, &'static str)>, body: Vec<u8>| {
            let world = &world;
            async move {
                world
                    .ask(caller(Role::Admin), method, path, &headers, body)
                    .await
            }
        };
        for bad in ["", "{", "{\"uri\": }", "{} x", "\u{feff}{}", "{'a': 1}"] {
            let answer = send(vec![json_kind], bad.into()).await;
            let problem = answer.refused(400, Some("body"));
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("line 1 column"), "{bad:?}: {detail}");
        }
        let answer = send(vec![json_kind], b"{\"\xff\": 1}".to_vec()).await;
        answer.refused(400, Some("body"));
        send(vec![], "{}".into())
            .await
            .refused(415, Some("Content-Type"));
        for kind in ["text/plain", "application/xml", "application/jsonx", "json"] {
            let answer = send(vec![("content-type", kind)], "{}".into()).await;
            answer.refused(415, Some("Content-Type"));
        }
        let large = format!("{{\"uri\": \"{}\"}}", "x".repeat(300_000));
        send(vec![json_kind], large.into())
            .await
            .refused(413, Some("body"));
        // As deep as it is, nothing falls over.
        let deep = "[".repeat(100_000);
        let answer = send(vec![json_kind], deep.into()).await;
        assert!([400, 422].contains(&answer.status), "{answer:?}");
    }
    let patch = ("content-type", "application/merge-patch+json");
    let wrong = world
        .ask(caller(Role::Admin), "PUT", "/instance", &[patch], "{}")
        .await;
    wrong.refused(415, Some("Content-Type"));
    assert_eq!(world.everything().await, before);
}

#[tokio::test(start_paused = true)]
async fn slow_request_body_times_out() {
    let world = World::new().await;
    let body = axum::body::Body::from_stream(futures_util::stream::pending::<
        Result<String, std::io::Error>,
    >());
    let kind = [("content-type", "application/json")];
    let answer = world
        .ask(caller(Role::Admin), "PUT", "/instance", &kind, body)
        .await;
    answer.refused(408, Some("body"));
}

#[tokio::test]
async fn parameters_are_known_given_once_and_within_bounds() {
    let world = furnished().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=+1", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("offset=-1", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("watch=yes", "watch"),
        ("colour=red", "colour"),
        ("Limit=1", "Limit"),
    ] {
        for path in ["/instance/", "/workload", "/node", "/project", "/event"] {
            world
                .get(&format!("{path}?{query}"))
                .await
                .refused(422, Some(field));
        }
    }
    for (path, field) in [
        ("/instance?type=container", "type"),
        ("/instance?type=BOX", "type"),
        ("/instance?state=running", "state"),
        ("/instance?project=A", "project"),
        ("/instance?node=", "node"),
        ("/instance?node=a%20b", "node"),
        ("/instance?workload=a%20b", "workload"),
        ("/instance/i?limit=1", "limit"),
        ("/instance/i?project=", "project"),
        ("/instance/i/placement?watch=true", "watch"),
        ("/node?state=RUNNING", "state"),
        ("/event?after=x", "after"),
        ("/openapi.json?x=1", "x"),
    ] {
        world.get(path).await.refused(422, Some(field));
    }
    world
        .delete("/workload/w?cascade=1")
        .await
        .refused(422, Some("cascade"));
    world
        .delete("/node/n1?force=true")
        .await
        .refused(422, Some("force"));
}

#[tokio::test]
async fn paths_that_lead_nowhere_and_methods_that_do_nothing() {
    let world = furnished().await;
    for path in [
        "/instance/nothing",
        "/workload/..%2F..",
        "/instance/%00",
        "/node/%2F",
    ] {
        world.get(path).await.refused(404, None);
    }
    world.get("/instance/%ff").await.refused(400, Some("id"));
    let long = format!("/instance/{}", "x".repeat(5000));
    let detail = world.get(&long).await.refused(404, None)["detail"].to_string();
    assert!(detail.len() < 300, "{detail}");
    for (method, path, allow) in [
        ("POST", "/instance/", "GET, PUT"),
        ("DELETE", "/instance", "GET, PUT"),
        ("PUT", "/instance/i", "GET, PATCH, DELETE"),
        ("PATCH", "/node", "GET"),
        ("OPTIONS", "/event/", "GET"),
        ("TRACE", "/project/team", "GET, PATCH, DELETE"),
    ] {
        let answer = world.ask(caller(Role::Admin), method, path, &[], "").await;
        answer.refused(405, None);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    let head = world
        .ask(caller(Role::Viewer), "HEAD", "/instance/i", &[], "")
        .await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}
