//! Machines that do not come up, are called off, or are not for whoever asks.

use strata_testkit::operations::{
    CreateBackupRequest, CreateHypervisorRequest, DestroyHypervisorRequest, ExpandStorageRequest,
    HypervisorState, ListHypervisorsRequest, ShrinkStorageRequest,
};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Code, refused};

use crate::operations::world::{POOL, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_cannot_boot_is_given_back_and_says_why() {
    let world = World::start("").await;
    // Less than a node can run in.
    let tiny = json!({ "id": "tiny", "provider": "local", "cpu": 1, "ram": 1 });
    let added = world.rest().call("PUT", "/machine", tiny).await;
    assert_eq!(added.status, 201, "{added:?}");
    let id = world.begin("/hypervisor/tiny/create", Value::Null).await;
    let ended = world.ended(&id).await;
    assert_eq!(ended["status"], "FAILED", "{ended:#}");
    assert_eq!(ended["leftovers"], Value::Null, "{ended:#}");
    let machine = world.rest().get("/machine/tiny").await;
    assert_eq!(machine["phase"], "AVAILABLE", "{machine:#}");
    assert_eq!(machine["failure"]["phase"], "BOOTING", "{machine:#}");
    assert!(!machine["failure"]["why"].as_str().unwrap().is_empty());
    let node = world.rest().call("GET", "/node/tiny", Value::Null).await;
    assert_eq!(node.status, 404, "{node:?}");
    world.nothing_is_left().await;
    // It can be mended, and then comes up.
    world
        .rest()
        .patch("/machine/tiny", json!({ "ram": 1000 }))
        .await;
    world.done("/hypervisor/tiny/create", Value::Null).await;
    let machine = world.rest().get("/machine/tiny").await;
    assert_eq!(machine["phase"], "UP", "{machine:#}");
    assert_eq!(machine["failure"], Value::Null, "{machine:#}");
    // What is up stays in the inventory.
    let removed = world
        .rest()
        .call("DELETE", "/machine/tiny", Value::Null)
        .await;
    assert_eq!(removed.status, 409, "{removed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_is_called_off_leaves_nothing() {
    let world = World::start("").await;
    // At each step that can still be called off.
    for step in ["allocate", "register", "boot", "join"] {
        let id = world.begin("/hypervisor/local-1/create", Value::Null).await;
        let path = format!("/operation/{id}");
        let begun = |one: &Value| {
            let steps = one["steps"].as_array().cloned().unwrap_or_default();
            steps.iter().any(|one| one["name"] == step)
        };
        world.until(&path, begun).await;
        let cancelled = world.rest().call("DELETE", &path, Value::Null).await;
        let ended = world.ended(&id).await;
        world.nothing_is_left().await;
        let phase = &world.rest().get("/machine/local-1").await["phase"];
        match ended["status"].as_str() {
            Some("FAILED") => assert_eq!(phase, "AVAILABLE", "{step}: {ended:#}"),
            // It was past the point.
            _ => {
                assert_eq!(phase, "UP", "{step}: {cancelled:?} {ended:#}");
                world.done("/hypervisor/local-1/destroy", Value::Null).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_for_those_who_may() {
    let world = World::start(POOL).await;
    let credentials = async |role: &str| {
        let out = world.daemon.scratch().join(role);
        let words = format!(
            "certificate issue --role {role} --name {role}-1 --out {}",
            out.display()
        );
        world.cli(&words).await;
        world.client_with(&out).await.operations()
    };
    let (mut viewer, mut operator) = (credentials("viewer").await, credentials("operator").await);
    let mut node = credentials("node").await;
    let id = || "local-1".to_owned();
    for client in [&mut viewer, &mut operator, &mut node] {
        let created = client.create_hypervisor(CreateHypervisorRequest { id: id() });
        refused(created.await, Code::PermissionDenied);
        let destroyed = client.destroy_hypervisor(DestroyHypervisorRequest { id: id() });
        refused(destroyed.await, Code::PermissionDenied);
        let expanded = client.expand_storage(ExpandStorageRequest::default());
        refused(expanded.await, Code::PermissionDenied);
        let shrunk = client.shrink_storage(ShrinkStorageRequest::default());
        refused(shrunk.await, Code::PermissionDenied);
    }
    for client in [&mut viewer, &mut operator] {
        let listed = client.list_hypervisors(ListHypervisorsRequest {}).await;
        assert_eq!(listed.unwrap().into_inner().hypervisors.len(), 3);
    }
    for client in [&mut viewer, &mut node] {
        let saved = client.create_backup(CreateBackupRequest {}).await;
        refused(saved, Code::PermissionDenied);
    }
    assert_eq!(world.rest().get("/operation").await, json!([]));
    // An operator may save what there is.
    let stream = operator
        .create_backup(CreateBackupRequest {})
        .await
        .unwrap();
    let told = crate::operations::operation_messages::all(stream.into_inner()).await;
    crate::operations::operation_messages::completed(&told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_a_provider_that_is_not_here_is_refused_and_not_offered() {
    let redfish = "[machines.redfish]\nmedia = { listen = \"127.0.0.1:7780\" }\n\
        [machines.redfish.credentials.rack]\nuser = \"admin\"\npassword = \"secret\"\n";
    let mut world = World::start(redfish).await;
    let rack = json!({
        "id": "rack-1", "provider": "redfish", "address": "https://192.0.2.7", "credentials": "rack",
    });
    let added = world.rest().call("PUT", "/machine", rack.clone()).await;
    assert_eq!(added.status, 201, "{added:?}");
    // The provider is gone; the machine is not.
    world.daemon.kill();
    world
        .daemon
        .set_config("[scheduler]\nlease_seconds = 120\n");
    world.daemon.restart().await;
    let mut operations = world.operations().await;
    let listed = operations.list_hypervisors(ListHypervisorsRequest {}).await;
    let listed = listed.unwrap().into_inner().hypervisors;
    let one = listed.iter().find(|one| one.id == "rack-1").unwrap();
    assert_eq!(one.state(), HypervisorState::Unknown, "{one:?}");
    let created = operations.create_hypervisor(CreateHypervisorRequest {
        id: "rack-1".into(),
    });
    let status = created.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("redfish"), "{status}");
    // Nor is another taken.
    let mut other = rack;
    other["id"] = json!("rack-2");
    let refused = world.rest().call("PUT", "/machine", other).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(world.rest().get("/operation").await, json!([]));
}
