//! The daemon dies at every step of every operation. Started again, the
//! operation comes to its end, and nothing is left of the death: no machine
//! that the inventory does not know, nothing frozen or half restored.

use std::fs;
use std::time::{Duration, Instant};

use strata_testkit::serde_json::{Value, json};
use strata_testkit::{holds, wait_for};

use crate::operations::files::{check, fill};
use crate::operations::world::{POOL, TEST_TIMEOUT, World};

fn steps(operation: &Value) -> Vec<String> {
    let steps = operation["steps"].as_array().cloned().unwrap_or_default();
    let name = |step: &Value| step["name"].as_str().unwrap_or_default().to_owned();
    steps.iter().map(name).collect()
}

/// How many moments of an operation are tried, beside its steps.
const KILL_POINTS: u32 = 4;

/// Begins an operation, kills the daemon at a moment of the time that it took
/// before, and starts it again; how the operation ended.
async fn killed_within(world: &mut World, path: &str, body: &Value, took: Duration, at: u32) {
    let moment = took * (at + 1) / (KILL_POINTS + 1);
    let begin = Instant::now();
    let id = world.begin(path, body.clone()).await;
    wait_for("the moment", TEST_TIMEOUT, async || {
        holds(begin.elapsed() >= moment)
    })
    .await;
    world.kill_and_restart().await;
    ended_well(world, &id, &format!("{moment:?} of {took:?}")).await;
}

async fn ended_well(world: &World, id: &str, killed: &str) {
    let ended = world.ended(id).await;
    assert_eq!(
        ended["status"], "COMPLETED",
        "killed at {killed}: {ended:#}"
    );
    assert_eq!(ended["leftovers"], Value::Null, "{ended:#}");
    world.nothing_is_left().await;
}

/// Begins an operation, kills the daemon once the step of this number has
/// begun, and starts it again; how the operation ended.
async fn killed_at(world: &mut World, path: &str, body: &Value, step: usize) {
    let id = world.begin(path, body.clone()).await;
    let begun = |one: &Value| steps(one).len() > step || one["status"] == "COMPLETED";
    world.until(&format!("/operation/{id}"), begun).await;
    world.kill_and_restart().await;
    ended_well(world, &id, &format!("step {step}")).await;
}

const CREATE: &str = "/hypervisor/local-1/create";
const DESTROY: &str = "/hypervisor/local-1/destroy";

#[tokio::test(flavor = "multi_thread")]
async fn a_hypervisor_is_created_through_every_death() {
    let mut world = World::start("").await;
    let begin = Instant::now();
    let known = steps(&world.done(CREATE, Value::Null).await);
    let took = begin.elapsed();
    assert_eq!(known.len(), 6);
    for at in 0..KILL_POINTS {
        world.done(DESTROY, Value::Null).await;
        killed_within(&mut world, CREATE, &Value::Null, took, at).await;
    }
    for step in 0..known.len() {
        world.done(DESTROY, Value::Null).await;
        killed_at(&mut world, CREATE, &Value::Null, step).await;
        let ready = |node: &Value| node["status"] == "READY" && node["draining"] == false;
        world.until("/node/local-1", ready).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hypervisor_is_destroyed_through_every_death() {
    let mut world = World::start("").await;
    world.done(CREATE, Value::Null).await;
    let begin = Instant::now();
    let known = steps(&world.done(DESTROY, Value::Null).await);
    let took = begin.elapsed();
    assert_eq!(known.len(), 4);
    for at in 0..KILL_POINTS {
        world.done(CREATE, Value::Null).await;
        killed_within(&mut world, DESTROY, &Value::Null, took, at).await;
    }
    for step in 0..known.len() {
        world.done(CREATE, Value::Null).await;
        killed_at(&mut world, DESTROY, &Value::Null, step).await;
        let gone = world.rest().call("GET", "/node/local-1", Value::Null).await;
        assert_eq!(gone.status, 404, "{gone:?}");
    }
}

async fn online(world: &World) -> usize {
    let pool = world.rest().get("/storage").await;
    let devices = pool["devices"].as_array().unwrap();
    devices
        .iter()
        .filter(|one| one["state"] == "ONLINE")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_grows_and_shrinks_through_every_death() {
    const FILES: u64 = 200;
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    let (expand, shrink) = (
        // All of a spare.
        json!({ "minBytes": 999_997_440 }),
        json!({ "maxBytes": 1_000_000_000 }),
    );
    let larger = steps(&world.done("/storage/expand", expand.clone()).await);
    fill(&data, FILES);
    let begin = Instant::now();
    let smaller = steps(&world.done("/storage/shrink", shrink.clone()).await);
    let took = begin.elapsed();
    for at in 0..KILL_POINTS {
        world.done("/storage/expand", expand.clone()).await;
        fill(&data, FILES);
        killed_within(&mut world, "/storage/shrink", &shrink, took, at).await;
        assert_eq!(online(&world).await, 1);
        check(&data, FILES);
    }
    assert_eq!(
        (larger.len(), smaller.len()),
        (3, 2),
        "{larger:?} {smaller:?}"
    );
    for step in 0..larger.len().max(smaller.len()) {
        let at = step.min(larger.len() - 1);
        killed_at(&mut world, "/storage/expand", &expand, at).await;
        assert_eq!(online(&world).await, 2);
        // So that there is something to move away.
        fill(&data, FILES);
        let at = step.min(smaller.len() - 1);
        killed_at(&mut world, "/storage/shrink", &shrink, at).await;
        assert_eq!(online(&world).await, 1);
        check(&data, FILES);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_cut_and_grown_through_every_death() {
    const FILES: u64 = 100;
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    fill(&data, FILES);
    let bytes = async |world: &World| world.rest().get("/storage").await["bytes"].as_u64();
    let full = bytes(&world).await;
    let (shrink, expand) = (
        json!({ "maxBytes": 300_000_000 }),
        json!({ "minBytes": 299_999_232 }),
    );
    let smaller = steps(&world.done("/storage/shrink", shrink.clone()).await);
    let cut = bytes(&world).await;
    let larger = steps(&world.done("/storage/expand", expand.clone()).await);
    assert_eq!(bytes(&world).await, full);
    for at in 0..smaller.len() {
        killed_at(&mut world, "/storage/shrink", &shrink, at).await;
        assert_eq!(bytes(&world).await, cut);
        check(&data, FILES);
        killed_at(
            &mut world,
            "/storage/expand",
            &expand,
            at.min(larger.len() - 1),
        )
        .await;
        assert_eq!(bytes(&world).await, full);
        check(&data, FILES);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_made_and_restored_through_every_death() {
    const FILES: u64 = 12;
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    fill(&data, FILES);
    let begin = Instant::now();
    let known = steps(&world.done("/backup", json!({})).await);
    let took = begin.elapsed();
    assert_eq!(known, ["freeze", "save", "thaw", "verify"]);
    for at in 0..KILL_POINTS {
        killed_within(&mut world, "/backup", &json!({}), took, at).await;
    }
    for step in 0..known.len() {
        // Something that is new in each.
        fs::write(data.join("new"), format!("{step}")).unwrap();
        killed_at(&mut world, "/backup", &json!({}), step).await;
    }
    // Each operation made one, dead or not.
    let backups = world.rest().get("/backup").await;
    let count = known.len() + KILL_POINTS as usize + 1;
    assert_eq!(backups.as_array().unwrap().len(), count, "{backups}");

    let restore = json!({ "volume": "data", "as": "copy" });
    let path = "/backup/latest/restore";
    let known = steps(&world.done(path, restore.clone()).await);
    assert_eq!(known.len(), 4, "{known:?}");
    for step in 0..known.len() {
        world.cli("storage volume remove copy --yes").await;
        killed_at(&mut world, path, &restore, step).await;
        check(&world.volume("copy"), FILES);
    }
    // In the place of what is there, which stays as a snapshot.
    let replace = json!({ "volume": "data", "replace": true });
    for step in 0..known.len() {
        fs::write(data.join("new"), "not saved").unwrap();
        killed_at(&mut world, path, &replace, step).await;
        check(&data, FILES);
        assert_eq!(fs::read_to_string(data.join("new")).unwrap(), "3");
        wait_for("a snapshot", TEST_TIMEOUT, async || {
            let volume = world.rest().get("/storage/volume/data").await;
            let taken = volume["snapshots"].as_array().map_or(0, Vec::len);
            strata_testkit::same(taken, &(step + 1))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_replaced_and_looked_over_through_every_death() {
    const FILES: u64 = 200;
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    fill(&data, FILES);
    let used = async |world: &World| {
        let pool = world.rest().get("/storage").await;
        let devices = pool["devices"].as_array().unwrap();
        let one = devices.iter().find(|one| one["state"] == "ONLINE").unwrap();
        one["name"].as_str().unwrap().to_owned()
    };
    let path = async |world: &World| format!("/storage/device/{}/replace", used(world).await);
    let begin = Instant::now();
    let known = steps(&world.done(&path(&world).await, json!({})).await);
    let took = begin.elapsed();
    assert_eq!(known, ["choose", "replace"]);
    for step in 0..known.len() {
        let path = path(&world).await;
        killed_at(&mut world, &path, &json!({}), step).await;
        assert_eq!(online(&world).await, 1);
        check(&data, FILES);
    }
    for at in 0..KILL_POINTS {
        let path = path(&world).await;
        killed_within(&mut world, &path, &json!({}), took, at).await;
        assert_eq!(online(&world).await, 1);
        check(&data, FILES);
    }
    killed_at(&mut world, "/storage/scrub", &json!({}), 0).await;
    let pool = world.rest().get("/storage").await;
    assert_eq!(pool["scrub"]["uncorrectable"], 0, "{pool}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_forgotten_through_every_death_and_the_rest_is_whole() {
    const FILES: u64 = 12;
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    fill(&data, FILES);
    let quick = json!({ "skipVerify": true });
    let keep = json!({ "keep": { "last": 1 } });
    let mut took = Duration::ZERO;
    for at in 0..=KILL_POINTS {
        // What only the older one has is all that goes.
        fs::write(data.join("new"), vec![at as u8; 3_000_000]).unwrap();
        world.done("/backup", quick.clone()).await;
        fs::write(data.join("new"), vec![at as u8 + 100; 3_000_000]).unwrap();
        world.done("/backup", quick.clone()).await;
        if at == 0 {
            let begin = Instant::now();
            world.done("/backup/prune", keep.clone()).await;
            took = begin.elapsed();
        } else {
            killed_within(&mut world, "/backup/prune", &keep, took, at - 1).await;
        }
        let backups = world.rest().get("/backup").await;
        assert_eq!(backups.as_array().unwrap().len(), 1, "{backups}");
        let all = json!({ "percent": 100 });
        world.done("/backup/latest/verify", all).await;
    }
}
