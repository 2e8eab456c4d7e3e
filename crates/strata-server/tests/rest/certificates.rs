//! Certificates: listed with who revoked them and why, revoked in three ways,
//! by admins alone; and limits of nodes, which are theirs to set too.

use jiff::Timestamp;
use serde_json::json;
use strata_identity::CertificateId;
use strata_types::Role;

use crate::world::{World, caller};

fn id(serial: &str, name: &str, role: Role, hours: i64) -> CertificateId {
    let now = Timestamp::now();
    let hours = jiff::SignedDuration::from_hours(hours);
    CertificateId {
        serial: serial.into(),
        key: format!("{serial:0>64}"),
        name: name.parse().unwrap(),
        role,
        issued_at: now,
        expires_at: now.checked_add(hours).unwrap(),
        issuer: String::new(),
    }
}

#[tokio::test]
async fn certificates_are_listed_and_revoked_by_serial_key_and_name() {
    let world = World::new().await;
    for (serial, name, role) in [
        ("a1", "ann", Role::Operator),
        ("a2", "ben", Role::Viewer),
        ("a3", "ben", Role::Operator),
        ("a4", "n1", Role::Node),
    ] {
        let id = id(serial, name, role, 1);
        let recorded = world.core.certificates().record(&id, "admin");
        recorded.await.unwrap();
    }
    let ended = id("a0", "old", Role::Viewer, -1);
    let recorded = world.core.certificates().record(&ended, "admin");
    recorded.await.unwrap();
    let list = world.get("/certificate?limit=2").await;
    assert_eq!(list.header("x-total-count"), Some("4"));
    let one = world.get("/certificate/a1").await.json();
    assert_eq!(
        (&one["name"], &one["role"]),
        (&json!("ann"), &json!("operator"))
    );
    assert_eq!(
        (&one["revoked"], &one["issuedBy"]),
        (&json!(false), &json!("admin"))
    );
    world.get("/certificate/zz").await.refused(404, None);

    let key = format!("{:0>64}", "a4");
    for (body, of) in [
        (json!({ "serial": "A1", "reason": "lost" }), "a1"),
        (json!({ "name": "ben", "role": "viewer" }), "a2"),
        (json!({ "key": key }), "a4"),
    ] {
        let done = world.post("/certificate/revoke", &body).await;
        assert_eq!(
            (done.status, done.json()),
            (200, json!({ "certificates": 1 }))
        );
        let one = world.get(&format!("/certificate/{of}")).await.json();
        assert_eq!(one["revoked"], true, "{one}");
        assert_eq!(one["revokedBy"], "admin");
    }
    let one = world.get("/certificate/a1").await.json();
    assert_eq!(one["reason"], "lost");
    let other = world.get("/certificate/a3").await.json();
    assert_eq!(other["revoked"], false, "another role of the same name");
}

#[tokio::test]
async fn invalid_revocation_is_refused() {
    let world = World::new().await;
    for (body, status, field) in [
        (json!({}), 422, "serial"),
        (json!({ "serial": "a1", "key": "b2" }), 422, "serial"),
        (
            json!({ "serial": "a1", "name": "x", "role": "viewer" }),
            422,
            "serial",
        ),
        (json!({ "name": "ann" }), 422, "serial"),
        (json!({ "serial": "../x" }), 422, "serial"),
        (json!({ "serial": "" }), 422, "serial"),
        (json!({ "key": "abc" }), 422, "key"),
        (json!({ "name": "a b", "role": "viewer" }), 422, "name"),
        (json!({ "name": "ann", "role": "king" }), 422, "role"),
    ] {
        let done = world.post("/certificate/revoke", &body).await;
        done.refused(status, Some(field));
    }
    let unknown = json!({ "serial": "ab" });
    let unknown = world.post("/certificate/revoke", &unknown).await;
    unknown.refused(404, None);
    assert!(world.core.certificates().revocations().list().is_empty());
}

#[tokio::test]
async fn only_admins_manage_certificates_and_node_limits() {
    let world = World::new().await;
    world.node("n1").await;
    let json = [("content-type", "application/json")];
    for role in [Role::Operator, Role::Viewer, Role::Node] {
        for (method, path) in [
            ("GET", "/certificate"),
            ("GET", "/certificate/a1"),
            ("POST", "/certificate/revoke"),
        ] {
            let body = r#"{"name":"ann","role":"admin"}"#;
            let done = world.ask(caller(role), method, path, &json, body).await;
            assert_eq!(done.status, 403, "{role} {method} {path}");
        }
        let body = r#"{"limits":{"cpu":1000000}}"#;
        let done = world.ask(caller(role), "PATCH", "/node/n1", &json, body);
        assert_eq!(done.await.status, 403, "{role}");
    }
    let bounded = json!({ "limits": { "cpu": 2000, "memory": 1000 } });
    let node = world.patch("/node/n1", &bounded).await.json();
    assert_eq!(
        (&node["capacity"]["cpu"], &node["limits"]["cpu"]),
        (&json!(2000), &json!(2000))
    );
    // Whatever it reports from then on.
    world.node("n1").await;
    let node = world.get("/node/n1").await.json();
    assert_eq!(
        (&node["capacity"]["cpu"], &node["capacity"]["memory"]),
        (&json!(2000), &json!(1000))
    );
    let free = world
        .patch("/node/n1", &json!({ "limits": {} }))
        .await
        .json();
    assert!(free.get("limits").is_none(), "{free}");
    world.node("n1").await;
    assert_eq!(
        world.get("/node/n1").await.json()["capacity"]["cpu"],
        64_000
    );
}
