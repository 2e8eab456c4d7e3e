//! Projects, and how much each may have.

use serde_json::json;
use strata_api::rest;
use strata_identity::Caller;
use strata_types::Role;

use crate::world::{World, caller};

#[tokio::test]
async fn project_is_created_shown_updated_and_deleted() {
    let world = World::new().await;
    let body = json!({ "name": "team", "quota": {"cpu": 1000, "instances": 2} });
    let made = world.put("/project/", &body).await;
    assert_eq!(
        (made.status, made.header("location")),
        (201, Some("/project/team"))
    );
    assert_eq!(world.put("/project", &body).await.status, 200);
    let other = json!({ "name": "team" });
    world.put("/project", &other).await.refused(409, None);
    let told: rest::Project = serde_json::from_value(made.json()).unwrap();
    assert_eq!((told.quota.cpu, told.quota.memory), (Some(1000), None));

    let patch = json!({ "quota": {"cpu": null, "memory": 512} });
    let changed = world.patch("/project/team", &patch).await.json();
    assert_eq!(changed["quota"], json!({"memory": 512, "instances": 2}));
    for (bad, field) in [
        (json!({ "quota": {"cpu": -1} }), "quota.cpu"),
        (json!({ "quota": {"gpu": 1} }), "quota.gpu"),
        (json!({ "quota": 1 }), "quota"),
        (json!({ "name": "x" }), "name"),
        (json!({ "colour": "x" }), "colour"),
    ] {
        world
            .patch("/project/team", &bad)
            .await
            .refused(422, Some(field));
    }
    let list = world.get("/project?limit=1&offset=1").await;
    assert_eq!(
        (
            list.header("x-total-count"),
            list.json()[0]["name"].as_str()
        ),
        (Some("2"), Some("team"))
    );
    assert_eq!(world.delete("/project/team").await.status, 202);
    world.get("/project/team").await.refused(404, None);
    world.delete("/project/default").await.refused(409, None);
    world.get("/project/NO").await.refused(404, None);
}

#[tokio::test]
async fn project_quota_holds_and_only_empty_projects_are_deleted() {
    let world = World::new().await;
    world
        .put(
            "/project",
            &json!({ "name": "team", "quota": {"cpu": 1000} }),
        )
        .await;
    let body =
        |name: &str, cpu: u32| json!({ "name": name, "uri": "x", "resources": {"cpu": cpu} });
    let made = world.put("/instance?project=team", &body("one", 800)).await;
    assert_eq!(
        (made.status, made.json()["project"].as_str()),
        (201, Some("team"))
    );
    let refused = world.put("/instance?project=team", &body("two", 300)).await;
    let problem = refused.refused(429, None);
    assert_eq!(problem["code"], "exhausted");
    assert!(
        problem["detail"].as_str().unwrap().contains("cpu 1000"),
        "{problem}"
    );
    assert_eq!(world.get("/project/team").await.json()["used"]["cpu"], 800);
    world.delete("/project/team").await.refused(409, None);
    // The same name elsewhere is another instance.
    assert_eq!(world.put("/instance", &body("one", 800)).await.status, 201);
    let both = json!({ "name": "x", "uri": "x", "project": "default" });
    world
        .put("/instance?project=team", &both)
        .await
        .refused(422, Some("project"));
    let nowhere = json!({ "name": "x", "uri": "x", "project": "nowhere" });
    world.put("/instance", &nowhere).await.refused(404, None);
}

/// What a deleted project was allowed, the next one of its name is not; and its
/// events are not for callers of the next one.
#[tokio::test]
async fn project_of_a_deleted_name_inherits_neither_access_nor_events() {
    let world = World::new().await;
    for body in [
        json!({ "name": "team" }),
        json!({ "name": "one", "allowFrom": ["team", "default"] }),
        json!({ "name": "two", "allowFrom": ["team"] }),
    ] {
        assert_eq!(world.put("/project", &body).await.status, 201);
    }
    let old = json!({ "name": "old", "uri": "x", "project": "team" });
    assert_eq!(world.put("/instance", &old).await.status, 201);
    let team = || Caller {
        projects: Some(vec!["team".parse().unwrap()]),
        ..caller(Role::Operator)
    };
    let events = async || {
        let seen = world.ask(team(), "GET", "/event", &[], String::new()).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        seen.json().to_string()
    };
    assert!(events().await.contains("old"));
    let path = "/instance/old?project=team";
    assert_eq!(world.delete(path).await.status, 202);
    assert_eq!(world.delete("/project/team").await.status, 202);
    assert_eq!(
        world
            .put("/project", &json!({ "name": "team" }))
            .await
            .status,
        201
    );
    let allowed = async |name: &str| {
        let project = world.get(&format!("/project/{name}")).await.json();
        project["allowFrom"].clone()
    };
    assert_eq!(allowed("one").await, json!(["default"]));
    let none = allowed("two").await;
    assert!(none.is_null() || none == json!([]), "{none}");
    let seen = events().await;
    assert!(!seen.contains("old"), "{seen}");
}
