//! What the pool owes to those who are there before it, who only look at it,
//! and who write to it while others restore.

use std::fs;
use std::process::Command;

use strata_testkit::cluster::Rest;
use strata_testkit::operations::{HypervisorCapabilities, ListHypervisorsRequest};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Daemon, wait_for};

use crate::operations::STRATA;
use crate::operations::world::{POOL, TEST_TIMEOUT, World, read};

async fn capabilities(world: &World, id: &str) -> Vec<i32> {
    let mut operations = world.operations().await;
    let listed = operations.list_hypervisors(ListHypervisorsRequest {}).await;
    let listed = listed.unwrap().into_inner().hypervisors;
    let one = listed.into_iter().find(|one| one.id == id).unwrap();
    one.capabilities
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_there_before_the_pool_gets_it() {
    let mut world = World::start(POOL).await;
    world.done("/hypervisor/local-1/create", Value::Null).await;
    assert!(capabilities(&world, "local-1").await.is_empty());
    world.create_volume(json!({ "name": "data" })).await;
    wait_for("the machine to have the pool", TEST_TIMEOUT, async || {
        let storage = i32::from(HypervisorCapabilities::Storage);
        match capabilities(&world, "local-1").await {
            now if now == [storage] => Ok(()),
            now => Err(format!("{now:?}")),
        }
    })
    .await;
    world.use_image_within(&["local-1"]).await;
    let script = "SCRIPT=echo written > /data/file; trap exit TERM; while :; do sleep 1; done";
    let fields = json!({
        "environment": [script],
        "volumes": ["pool=data:/data"],
        "placement": { "constraints": ["node=local-1"] },
    });
    let id = world.instance("writer", fields).await;
    world.runs(&id, Some("local-1")).await;
    let file = world.volume("data").join("file");
    wait_for("what was written", TEST_TIMEOUT, async || {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        (text == "written\n").then_some(()).ok_or(text)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_storage_status_creates_no_pool() {
    let world = World::start(POOL).await;
    let out = world.daemon.scratch().join("viewer");
    let words = format!(
        "certificate issue --role viewer --name viewer-1 --out {}",
        out.display()
    );
    world.cli(&words).await;
    let viewer = Rest::new(world.near(), &out);
    let seen = viewer.call("GET", "/storage", Value::Null).await;
    assert!(seen.status < 500, "{seen:?}");
    let volumes = viewer.call("GET", "/storage/volume", Value::Null).await;
    assert_eq!(volumes.body.trim(), "[]", "{volumes:?}");
    for file in ["pool.json", "devices", "mount"] {
        let path = world.daemon.data_dir().join("pool").join(file);
        let found = fs::read_dir(&path).map(Iterator::count);
        assert!(found.unwrap_or(0) == 0 && !path.is_file(), "{path:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_another_run_does_not_keep_the_pool() {
    let mut world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.daemon.data_dir();
    let pool = data.join("pool/mount").display().to_string();
    // It has the mounts of the host, the pool among them.
    let (_other, node) = Daemon::up(STRATA).await;
    node.allocate("cell").await.unwrap();
    let pid = node.start("cell", "main", "sleep 1000").await.unwrap();
    let has_pool = || {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        let mut mounts = mounts.lines();
        mounts.any(|line| line.contains(&pool) && line.contains(" - btrfs "))
    };
    assert!(has_pool());
    world.daemon.terminate().await;
    let down = ["down", "--yes", "--data-dir", data.to_str().unwrap()];
    world.daemon.cli().run(down).await.ok();
    assert!(!has_pool());
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file"));
        let file = file.unwrap_or_default();
        assert!(!file.starts_with(data.to_str().unwrap()), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_that_does_not_fit_fails_no_other_write() {
    let world = World::start(POOL).await;
    for name in ["data", "live", "other"] {
        world.create_volume(json!({ "name": name })).await;
    }
    let mut source = std::io::Read::take(fs::File::open("/dev/urandom").unwrap(), 48_000_000);
    let mut data = fs::File::create(world.volume("data").join("random")).unwrap();
    std::io::copy(&mut source, &mut data).unwrap();
    world.cli("backup create").await;

    let script = "SCRIPT=trap exit TERM; i=0; while :; do echo $i >> /live/log; i=$((i+1)); done";
    let fields = json!({ "environment": [script], "volumes": ["pool=live:/live"] });
    let id = world.instance("live", fields).await;
    world.runs(&id, None).await;
    // All but the reserve and a little is taken.
    let pool = world.rest().get("/storage").await;
    let free = pool["freeBytes"].as_u64().unwrap();
    let reserve = world.volume("other").join("ballast");
    let allocated = Command::new("fallocate")
        .args(["-l", &(free - 16_000_000 - 30_000_000).to_string()])
        .arg(&reserve)
        .status();
    assert!(allocated.unwrap().success());

    let log = world.volume("live").join("log");
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let before = lines();
    let restore = json!({ "volume": "data", "as": "old" });
    let begun = world
        .rest()
        .call("POST", "/backup/latest/restore", restore.clone())
        .await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let ended = world.ended(read(&begun)["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "FAILED", "{ended:#}");
    let why = ended["message"].as_str().unwrap();
    assert!(why.contains("beside the reserve"), "{why}");
    assert!(!world.volume("old").exists());
    wait_for("the instance to write on", TEST_TIMEOUT, async || {
        (lines() > before + 100)
            .then_some(())
            .ok_or(lines().to_string())
    })
    .await;
    // Numbers that could not be written are missing.
    let written = fs::read_to_string(&log).unwrap();
    let whole = written.rsplit_once('\n').unwrap().0;
    for (expected, line) in whole.lines().enumerate() {
        assert_eq!(line, expected.to_string());
    }

    // With room it is done.
    fs::remove_file(&reserve).unwrap();
    world.done("/backup/latest/restore", restore).await;
    let restored = fs::metadata(world.volume("old").join("random")).unwrap();
    assert_eq!(restored.len(), 48_000_000);
}
