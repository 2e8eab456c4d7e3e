//! Secrets: how much of them one instance is given.

use serde_json::{Value, json};

use crate::world::{Answer, World};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn put(world: &World, path: &str, body: Value) -> Answer {
    let caller = crate::world::caller(strata_types::Role::Operator);
    world
        .ask(caller, "PUT", path, &[JSON], body.to_string())
        .await
}

fn secret(name: &str, bytes: usize) -> Value {
    json!({ "name": name, "value": "x".repeat(bytes) })
}

/// A node keeps them in memory that all its projects share.
#[tokio::test]
async fn secrets_of_an_instance_are_bounded_together() {
    let world = World::new().await;
    let names: Vec<String> = (0..17).map(|number| format!("s{number}")).collect();
    for name in &names {
        let made = put(&world, "/secret", secret(name, 64 << 10)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let instance = |secrets: &[String]| json!({ "name": "web", "uri": "x", "secrets": secrets });
    let refused = put(&world, "/instance", instance(&names)).await;
    refused.refused(422, Some("secrets"));
    assert!(refused.text.contains("1048576"), "{refused:?}");
    // One in two places counts once.
    let mut sixteen = names[..16].to_vec();
    sixteen.push("KEY=s0".into());
    let made = put(&world, "/instance", instance(&sixteen)).await;
    assert_eq!(made.status, 201, "{made:?}");

    // Nor later, by a larger value.
    let mut other = names[..15].to_vec();
    for name in ["small", "other"] {
        let made = put(&world, "/secret", secret(name, 1)).await;
        assert_eq!(made.status, 201, "{made:?}");
        other.push(name.into());
    }
    let other = json!({ "name": "db", "uri": "x", "secrets": other });
    assert_eq!(put(&world, "/instance", other).await.status, 201);
    let grow = async |name: &str, bytes: usize| {
        let caller = crate::world::caller(strata_types::Role::Operator);
        let body = json!({ "value": "x".repeat(bytes) }).to_string();
        let path = format!("/secret/{name}");
        world.ask(caller, "PATCH", &path, &[JSON], body).await
    };
    let grown = grow("small", 32 << 10).await;
    assert_eq!(grown.status, 200, "{grown:?}");
    let refused = grow("other", 64 << 10).await;
    refused.refused(422, Some("value"));
    assert!(refused.text.contains("instance db"), "{refused:?}");
}
