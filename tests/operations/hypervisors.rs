//! Machines become hypervisors and machines again.

use std::fs;
use std::time::{Duration, Instant};

use strata_testkit::operations::{
    CreateHypervisorRequest, DestroyHypervisorRequest, HypervisorState, ListHypervisorsRequest,
    ListHypervisorsResponseHypervisor as Hypervisor, OperationState,
};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Code, refused, same, wait_for};

use crate::operations::operation_messages;
use crate::operations::world::{POOL, TEST_TIMEOUT, World};

fn id(id: &str) -> CreateHypervisorRequest {
    CreateHypervisorRequest { id: id.into() }
}

fn destroy_id(id: &str) -> DestroyHypervisorRequest {
    DestroyHypervisorRequest { id: id.into() }
}

async fn list(world: &World) -> Vec<Hypervisor> {
    let mut operations = world.operations().await;
    let answer = operations.list_hypervisors(ListHypervisorsRequest {}).await;
    answer.unwrap().into_inner().hypervisors
}

async fn state_of(world: &World, id: &str) -> HypervisorState {
    let all = list(world).await;
    all.iter().find(|one| one.id == id).unwrap().state()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_brought_up_used_and_taken_down() {
    let world = World::start("").await;
    let all = list(&world).await;
    let ids: Vec<_> = all.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["local-1", "local-2", "local-3"]);
    for one in &all {
        assert_eq!(one.state(), HypervisorState::AvailableToCreate, "{one:?}");
    }
    let mut operations = world.operations().await;
    refused(
        operations.create_hypervisor(id("nobody")).await,
        Code::NotFound,
    );
    refused(operations.create_hypervisor(id("")).await, Code::NotFound);
    refused(
        operations.destroy_hypervisor(destroy_id("nobody")).await,
        Code::NotFound,
    );

    let begin = Instant::now();
    let stream = operations.create_hypervisor(id("local-1")).await.unwrap();
    let told = operation_messages::all(stream.into_inner()).await;
    let took = begin.elapsed();
    operation_messages::completed(&told);
    assert!(
        told.last().unwrap().msg.contains("local-1 is up"),
        "{told:?}"
    );
    let steps = ["allocate", "register", "boot", "join", "verify", "open"];
    assert_eq!(operation_messages::steps(&told), steps, "{told:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");

    let ready = world
        .until("/node/local-1", |node| node["status"] == "READY")
        .await;
    assert_eq!(ready["draining"], false, "{ready}");
    let up = list(&world).await.remove(0);
    assert_eq!(up.state(), HypervisorState::AvailableToDestroy);
    assert!(up.cpu >= 1 && up.ram > 100, "{up:?}");
    // It is so already.
    let stream = operations.create_hypervisor(id("local-1")).await.unwrap();
    let again = operation_messages::all(stream.into_inner()).await;
    let states: Vec<_> = again.iter().map(|one| one.state).collect();
    assert_eq!(states, [OperationState::Completed], "{again:?}");

    let mut world = world;
    world.use_image_within(&["local-1"]).await;
    world.close_own_node().await;
    let web = world.instance("web", json!({})).await;
    world.runs(&web, Some("local-1")).await;
    let path = format!("/instance/{web}");
    let deleted = world.rest().call("DELETE", &path, Value::Null).await;
    assert!(deleted.status < 300, "{deleted:?}");

    let stream = operations.destroy_hypervisor(destroy_id("local-1")).await;
    let operation_messages = operation_messages::all(stream.unwrap().into_inner()).await;
    operation_messages::completed(&operation_messages);
    assert_eq!(
        operation_messages::steps(&operation_messages),
        ["off", "deregister", "wipe", "free"]
    );
    assert_eq!(
        state_of(&world, "local-1").await,
        HypervisorState::AvailableToCreate
    );
    assert!(
        world
            .daemon
            .node()
            .await
            .machines()
            .await
            .unwrap()
            .is_empty()
    );
    let gone = world.rest().call("GET", "/node/local-1", Value::Null).await;
    assert_eq!(gone.status, 404, "{gone:?}");
    let stream = operations.destroy_hypervisor(destroy_id("local-1")).await;
    let again = operation_messages::all(stream.unwrap().into_inner()).await;
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(again[0].state, OperationState::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_one_machine_are_serialized() {
    let world = World::start("").await;
    let mut operations = world.operations().await;
    let creating = operations.create_hypervisor(id("local-2")).await.unwrap();
    let mut creating = creating.into_inner();
    let first = operation_messages::next(&mut creating)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.state, OperationState::Scheduled);
    // Once it is under way it is not free any more.
    let turned = |one: &Value| one["phase"] != "AVAILABLE";
    world.until("/machine/local-2", turned).await;
    let stream = operations.destroy_hypervisor(destroy_id("local-2")).await;
    let mut destroying = stream.unwrap().into_inner();
    let waits = operation_messages::next(&mut destroying)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(waits.state, OperationState::Scheduled);
    assert!(waits.msg.contains(&first.operation), "{waits:?}");
    // Another machine does not wait for it.
    let other = operations.create_hypervisor(id("local-3")).await.unwrap();
    let mut other = other.into_inner();
    let begins = operation_messages::next(&mut other).await.unwrap().unwrap();
    assert_eq!(begins.msg, "it begins at once");
    // Whoever hangs up cancels nothing.
    let (second, third) = (waits.operation, begins.operation);
    drop((creating, destroying, other, operations));
    let created = world.completed(&first.operation).await;
    let destroyed = world.completed(&second).await;
    world.completed(&third).await;
    let at = |one: &Value| one["endedAt"].as_str().unwrap().to_owned();
    assert!(at(&created) < at(&destroyed));
    let states = [
        state_of(&world, "local-2").await,
        state_of(&world, "local-3").await,
    ];
    assert_eq!(
        states,
        [
            HypervisorState::AvailableToCreate,
            HypervisorState::AvailableToDestroy
        ]
    );
}

/// Two hypervisors and an instance on one of them; its id, where it is, and
/// the other.
async fn two_and_an_instance(world: &mut World, fields: Value) -> (String, String, String) {
    let names = ["local-1", "local-2"];
    let (one, two) = tokio::join!(
        world.begin("/hypervisor/local-1/create", Value::Null),
        world.begin("/hypervisor/local-2/create", Value::Null)
    );
    world.completed(&one).await;
    world.completed(&two).await;
    world.use_image_within(&names).await;
    world.close_own_node().await;
    let web = world.instance("web", fields).await;
    let runs = world.runs(&web, None).await;
    let on = runs["node"].as_str().unwrap().to_owned();
    let other = names.iter().find(|name| **name != on).unwrap();
    (web, on, (*other).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_destroyed_machine_are_rescheduled() {
    let mut world = World::start(POOL).await;
    // Machines that come up while there is a pool reach it.
    world.create_volume(json!({ "name": "data" })).await;
    let script = "trap exit TERM; echo start >> /data/starts; while :; do sleep 60 & wait; done";
    let fields = json!({
        "environment": [format!("SCRIPT={script}")],
        "volumes": ["pool=data:/data"],
    });
    let (web, on, other) = two_and_an_instance(&mut world, fields).await;
    let starts = world.volume("data").join("starts");
    let begin = Instant::now();
    let id = world
        .begin(&format!("/hypervisor/{on}/destroy"), Value::Null)
        .await;
    world.runs(&web, Some(&other)).await;
    // The lease is two minutes; nobody waited for it.
    assert!(begin.elapsed() < Duration::from_secs(60));
    wait_for("a second start", TEST_TIMEOUT, async || {
        let told = fs::read_to_string(&starts).map_err(|error| error.to_string())?;
        same(told, &"start\nstart\n".to_owned())
    })
    .await;
    world.completed(&id).await;
    let left = world.daemon.node().await.machines().await.unwrap();
    let names: Vec<_> = left
        .iter()
        .map(|one| one.spec.as_ref().unwrap().name.clone())
        .collect();
    assert_eq!(names, [other]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_hypervisor_is_emptied_before_it_goes() {
    let mut world = World::start("").await;
    let (web, on, other) = two_and_an_instance(&mut world, json!({})).await;
    let words = format!("hypervisor drain {on} --destroy");
    world.cli(&words).await;
    world.runs(&web, Some(&other)).await;
    let all = world.rest().get("/operation").await;
    let all = all.as_array().unwrap();
    let last = all
        .iter()
        .find(|one| one["kind"] == "hypervisor-destroy")
        .unwrap();
    let steps = last["steps"].as_array().unwrap();
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["close", "empty", "off", "deregister", "wipe", "free"]
    );
    assert_eq!(
        state_of(&world, &on).await,
        HypervisorState::AvailableToCreate
    );
}

async fn create(world: &World, machine: &str) -> Vec<operation_messages::Message> {
    let mut operations = world.operations().await;
    let stream = operations.create_hypervisor(id(machine)).await.unwrap();
    operation_messages::all(stream.into_inner()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_off_or_whose_node_left_is_brought_up_again() {
    let world = World::start("[scheduler]\nlease_seconds = 4\n").await;
    operation_messages::completed(&create(&world, "local-1").await);

    // Off: said at once, whatever the lease.
    world
        .done(
            "/machine/local-1/power",
            json!({ "power": "off", "force": true }),
        )
        .await;
    assert_eq!(state_of(&world, "local-1").await, HypervisorState::Unknown);
    let told = create(&world, "local-1").await;
    operation_messages::completed(&told);
    assert!(
        operation_messages::steps(&told).contains(&"boot"),
        "{told:?}"
    );
    assert_eq!(
        state_of(&world, "local-1").await,
        HypervisorState::AvailableToDestroy
    );

    // Gone for good: it joins as a new one.
    let gone = world
        .rest()
        .call("DELETE", "/node/local-1", Value::Null)
        .await;
    assert!(gone.status < 300, "{gone:?}");
    wait_for("the node to go", TEST_TIMEOUT, async || {
        let node = world.rest().call("GET", "/node/local-1", Value::Null).await;
        match node.status {
            404 => Ok(()),
            _ => Err(format!("{node:?}")),
        }
    })
    .await;
    assert_eq!(state_of(&world, "local-1").await, HypervisorState::Unknown);
    operation_messages::completed(&create(&world, "local-1").await);
    world
        .until("/node/local-1", |node| node["status"] == "READY")
        .await;
    assert_eq!(
        state_of(&world, "local-1").await,
        HypervisorState::AvailableToDestroy
    );
}
