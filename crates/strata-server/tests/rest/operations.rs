//! Long actions over REST, and what needs a node to be there.

use serde_json::json;
use strata_types::Role;

use crate::world::{World, caller};

#[tokio::test]
async fn node_drain_is_a_watchable_operation() {
    let world = World::new().await;
    world.node("n1").await;
    let body = json!({}).to_string();
    let kind = [("content-type", "application/json")];
    let begun = world
        .ask(
            caller(Role::Operator),
            "POST",
            "/node/n1/drain",
            &kind,
            body,
        )
        .await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let operation = begun.json();
    assert_eq!(operation["kind"], "node-drain");
    assert_eq!(operation["about"], json!(["node/n1"]));
    let path = format!("/operation/{}", operation["id"].as_str().unwrap());
    // Watched to its end: the last event is how it ended.
    let watched = world
        .ask(
            caller(Role::Viewer),
            "GET",
            &format!("{path}?watch=true"),
            &[],
            "",
        )
        .await;
    assert!(watched.text.contains("\"COMPLETED\""), "{watched:?}");
    let listed = world
        .ask(
            caller(Role::Viewer),
            "GET",
            "/operation/?state=COMPLETED",
            &[],
            "",
        )
        .await;
    assert_eq!(listed.json()[0]["steps"][0]["name"], "close");
    let log = world
        .ask(caller(Role::Viewer), "GET", &format!("{path}/log"), &[], "")
        .await;
    assert!(!log.json().as_array().unwrap().is_empty());
    let ended = world
        .ask(caller(Role::Operator), "DELETE", &path, &[], "")
        .await;
    assert_eq!(ended.status, 409, "it has ended");
}

#[tokio::test]
async fn bad_requests_of_long_actions_change_nothing() {
    let world = World::new().await;
    world.node("n1").await;
    let kind = [("content-type", "application/json")];
    let post = async |role, path: &str, body: &str| {
        let answer = world
            .ask(caller(role), "POST", path, &kind, body.to_owned())
            .await;
        answer.status
    };
    assert_eq!(post(Role::Admin, "/node/n9/drain", "{}").await, 404);
    assert_eq!(post(Role::Admin, "/node/n1/drain", r#"{"x":1}"#).await, 422);
    assert_eq!(post(Role::Admin, "/node/n1/drain", "{").await, 400);
    assert_eq!(post(Role::Viewer, "/node/n1/drain", "{}").await, 403);
    assert_eq!(
        post(Role::Operator, "/node/n1/drain", r#"{"leave":true}"#).await,
        403
    );
    for path in ["/operation/x", "/operation/x/log"] {
        let missing = world.ask(caller(Role::Admin), "GET", path, &[], "").await;
        assert_eq!(missing.status, 404, "{path}");
    }
    let all = world
        .ask(caller(Role::Admin), "GET", "/operation", &[], "")
        .await;
    assert_eq!(all.json(), json!([]));
}

#[tokio::test]
async fn unplaced_instance_has_no_logs() {
    let world = World::new().await;
    let kind = [("content-type", "application/json")];
    let body = json!({ "name": "web", "uri": "nginx" }).to_string();
    let made = world
        .ask(caller(Role::Operator), "PUT", "/instance/", &kind, body)
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let logs = world
        .ask(caller(Role::Viewer), "GET", "/instance/web/logs", &[], "")
        .await;
    assert_eq!(logs.status, 409, "{logs:?}");
    let run = json!({ "command": ["ls"] }).to_string();
    let exec = world
        .ask(
            caller(Role::Operator),
            "POST",
            "/instance/web/exec",
            &kind,
            run,
        )
        .await;
    assert_eq!(exec.status, 409, "{exec:?}");
    let empty = json!({ "command": [] }).to_string();
    let exec = world
        .ask(
            caller(Role::Operator),
            "POST",
            "/instance/web/exec",
            &kind,
            empty,
        )
        .await;
    assert_eq!(exec.status, 422, "{exec:?}");
}
