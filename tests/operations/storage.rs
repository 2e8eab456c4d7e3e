//! The pool grows, shrinks, is copied and saved while somebody writes, and
//! what was written is there; what cannot be is refused before it begins.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use strata_testkit::operations::{ExpandStorageRequest, OperationState, ShrinkStorageRequest};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Code, refused};

use crate::operations::operation_messages;
use crate::operations::world::{POOL, World, read};

/// Writes files until it is told to end. Each says which it is, throughout.
struct Writer {
    dir: PathBuf,
    enough: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

fn content(number: u64) -> Vec<u8> {
    (number + 1).to_le_bytes().repeat(1 << 14)
}

impl Writer {
    fn start(dir: &Path, first: u64) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let (dir, until) = (dir.to_owned(), enough.clone());
        let written = Arc::new(AtomicU64::new(first));
        let (into, count) = (dir.clone(), written.clone());
        let thread = std::thread::spawn(move || {
            let mut number = first;
            while !until.load(Ordering::Relaxed) {
                let mut file = File::create(into.join(number.to_string())).unwrap();
                file.write_all(&content(number)).unwrap();
                if number.is_multiple_of(16) {
                    file.sync_all().unwrap();
                    // Room is for what else there is to do.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                number += 1;
                count.store(number, Ordering::Release);
            }
            number
        });
        Self {
            dir,
            enough,
            written,
            thread,
        }
    }

    /// How many files are whole by now.
    fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Ends it; every file must be as it was written. How many there are.
    fn finish(self) -> u64 {
        self.enough.store(true, Ordering::Relaxed);
        let count = self.thread.join().unwrap();
        check(&self.dir, count);
        count
    }
}

fn check(dir: &Path, count: u64) {
    for number in 0..count {
        let found = fs::read(dir.join(number.to_string())).unwrap();
        assert!(found == content(number), "{number} of {count} in {dir:?}");
    }
}

async fn devices(world: &World, state: &str) -> usize {
    let pool = world.rest().get("/storage").await;
    let devices = pool["devices"].as_array().unwrap();
    devices.iter().filter(|one| one["state"] == state).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn data_survives_pool_changes() {
    let world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    let writer = Writer::start(&data, 0);
    let expand = json!({ "minBytes": 999_000_000 });
    world.done("/storage/expand", expand.clone()).await;
    assert_eq!(devices(&world, "ONLINE").await, 2);
    let at_snapshot = writer.written();
    world.cli("storage volume snapshot data monday").await;
    let at_backup = writer.written();
    world.done("/backup", json!({})).await;
    let shrink = json!({ "maxBytes": 1_000_000_000 });
    world.done("/storage/shrink", shrink.clone()).await;
    assert_eq!(devices(&world, "ONLINE").await, 1);
    assert_eq!(devices(&world, "SPARE").await, 2);
    let count = writer.finish();
    assert!(at_snapshot > 0 && count > at_backup, "{count}");
    // The snapshot has all that was written before it was taken.
    let clone = json!({ "name": "trial", "from": "data@monday" });
    world.create_volume(clone).await;
    check(&world.volume("trial"), at_snapshot);
    // And so has the backup.
    let restore = json!({ "volume": "data", "as": "saved" });
    world.done("/backup/latest/restore", restore).await;
    check(&world.volume("saved"), at_backup);
    let scrubbed = world.done("/storage/scrub", json!({})).await;
    assert_eq!(scrubbed["status"], "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shrink_can_be_called_off_in_the_middle() {
    let world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let data = world.volume("data");
    let expand = json!({ "minBytes": 999_000_000 });
    world.done("/storage/expand", expand).await;
    let block = vec![7_u8; 1 << 20];
    for number in 0..400 {
        fs::write(data.join(format!("block-{number}")), &block).unwrap();
    }
    rustix::fs::sync();
    let writer = Writer::start(&data, 0);
    let shrink = json!({ "maxBytes": 1_000_000_000 });
    let id = world.begin("/storage/shrink", shrink).await;
    let path = format!("/operation/{id}");
    // Some of the data has been moved, and not all of it.
    let is_moving = |step: &Value| {
        let moved = step["fraction"].as_f64().unwrap_or_default();
        step["phase"] == "running" && moved > 0.0 && moved < 1.0
    };
    let moves = |one: &Value| {
        assert_ne!(one["status"], "COMPLETED", "over too early: {one:#}");
        let steps = one["steps"].as_array();
        steps.is_some_and(|steps| steps.iter().any(is_moving))
    };
    world.until(&path, moves).await;
    let cancelled = world.rest().call("DELETE", &path, Value::Null).await;
    assert!(cancelled.status < 300, "{cancelled:?}");
    let ended = world.ended(&id).await;
    writer.finish();
    assert_eq!(ended["status"], "FAILED", "{ended:#}");
    assert!(
        ended["message"].as_str().unwrap().contains("cancel"),
        "{ended:#}"
    );
    assert_eq!(devices(&world, "ONLINE").await, 2);
    let pool = world.rest().get("/storage").await;
    assert_eq!(pool["state"], "ONLINE", "{pool}");
    for number in 0..400 {
        let found = fs::read(data.join(format!("block-{number}"))).unwrap();
        assert!(found == block, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_pool_changes_are_refused_with_figures() {
    let config = "[storage]\nfile_gb = 1\nfiles = 2\nspare_files = 1\nreserve_mb = 2500\n";
    let world = World::start(config).await;
    let rest = world.rest();
    let before = rest.get("/storage").await;
    let mut operations = world.operations().await;
    let shrink = |max_bytes| ShrinkStorageRequest {
        max_bytes,
        ..ShrinkStorageRequest::default()
    };
    let expand = |min_bytes| ExpandStorageRequest {
        min_bytes,
        ..ExpandStorageRequest::default()
    };
    // Below what is used and kept free.
    let status = operations
        .shrink_storage(shrink(1_000_000_000))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("2500000000"), "{status}");
    assert!(status.message().contains("only 99"), "{status}");
    // Less than a device.
    let status = operations.shrink_storage(shrink(1000)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    // More than there is.
    let status = operations
        .expand_storage(expand(2_000_000_000))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("2000000000"), "{status}");
    for bad in [0, -1] {
        refused(
            operations.shrink_storage(shrink(bad)).await,
            Code::InvalidArgument,
        );
        refused(
            operations.expand_storage(expand(bad)).await,
            Code::InvalidArgument,
        );
    }
    let answer = rest
        .call(
            "POST",
            "/storage/shrink",
            json!({ "maxBytes": 1_000_000_000 }),
        )
        .await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("2500000000"), "{answer:?}");
    let answer = rest
        .call(
            "POST",
            "/storage/expand",
            json!({ "minBytes": 5_000_000_000_u64 }),
        )
        .await;
    assert_eq!(answer.status, 429, "{answer:?}");

    // What would be done is told, and not done.
    let body = json!({ "minBytes": 5_000_000 });
    let plan = rest.call("POST", "/storage/expand?dryRun=true", body).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let plan = read(&plan);
    assert_eq!(plan["devices"].as_array().unwrap().len(), 1, "{plan}");
    // The least that can be used of a spare.
    assert_eq!(plan["gainedBytes"], 256_u64 << 20, "{plan}");
    let asked = ExpandStorageRequest {
        dry_run: Some(true),
        ..expand(5_000_000)
    };
    let stream = operations.expand_storage(asked).await.unwrap();
    let told = operation_messages::all(stream.into_inner()).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].state, OperationState::Completed);
    assert!(told[0].msg.contains("gainedBytes"), "{told:?}");
    let shown = world.cli("storage expand 5MB --dry-run").await;
    assert!(
        shown.contains(plan["devices"][0].as_str().unwrap()),
        "{shown}"
    );
    assert_eq!(rest.get("/storage").await, before);
    assert_eq!(rest.get("/operation").await, json!([]));
}

/// Writes until it is refused; with what error.
fn until_refused(path: &Path) -> std::io::Error {
    let block = vec![1_u8; 1 << 20];
    let mut file = File::create(path).unwrap();
    for _ in 0..64 {
        if let Err(error) = file.write_all(&block).and_then(|()| file.sync_data()) {
            return error;
        }
    }
    panic!("64 MB were taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_keep_to_their_bounds_and_to_those_who_use_them() {
    let world = World::start(POOL).await;
    let rest = world.rest();
    let quota = 8_u64 << 20;
    let made = world
        .create_volume(json!({ "name": "small", "quotaBytes": quota }))
        .await;
    assert_eq!(made["quotaBytes"], quota, "{made}");
    let dir = world.volume("small");
    let error = until_refused(&dir.join("big"));
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
    // It is as full as it may be, and does not become smaller than that.
    let patch = json!({ "quotaBytes": 2_u64 << 20 });
    let answer = rest.call("PATCH", "/storage/volume/small", patch).await;
    assert_eq!(answer.status, 409, "{answer:?}");
    let patch = json!({ "quotaBytes": 128_u64 << 20 });
    rest.patch("/storage/volume/small", patch).await;
    fs::remove_file(dir.join("big")).unwrap();
    fs::write(dir.join("big"), vec![1_u8; 20 << 20]).unwrap();
    // The pool itself is not full.
    fs::write(dir.join("one"), "1").unwrap();
    world
        .create_volume(json!({ "name": "twin", "from": "small" }))
        .await;
    fs::write(world.volume("twin").join("one"), "2").unwrap();
    assert_eq!(fs::read_to_string(dir.join("one")).unwrap(), "1");

    let web = world
        .instance("web", json!({ "volumes": ["pool=small:/data"] }))
        .await;
    world.runs(&web, None).await;
    let path = "/storage/volume/small";
    let answer = rest.call("DELETE", path, Value::Null).await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("web"), "{answer:?}");
    assert_eq!(fs::read_to_string(dir.join("one")).unwrap(), "1");
    let deleted = rest
        .call("DELETE", &format!("/instance/{web}"), Value::Null)
        .await;
    assert!(deleted.status < 300, "{deleted:?}");
    strata_testkit::wait_for(
        "the volume to be free",
        crate::operations::world::TEST_TIMEOUT,
        async || {
            let answer = rest.call("DELETE", path, Value::Null).await;
            match answer.status < 300 {
                true => Ok(()),
                false => Err(format!("{answer:?}")),
            }
        },
    )
    .await;
    assert!(!dir.exists());
    let gone = rest.call("GET", path, Value::Null).await;
    assert_eq!(gone.status, 404, "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_amount_is_given_back_and_gained_while_written() {
    // As it is by default, but for the size: one device, and spares.
    let world = World::start(POOL).await;
    world.create_volume(json!({ "name": "data" })).await;
    let writer = Writer::start(&world.volume("data"), 0);
    let bytes = async || {
        let pool = world.rest().get("/storage").await;
        assert_eq!(pool["state"], "ONLINE", "{pool}");
        pool["bytes"].as_u64().unwrap()
    };
    let before = bytes().await;
    let mut operations = world.operations().await;
    let shrink = |max_bytes| ShrinkStorageRequest {
        max_bytes,
        ..ShrinkStorageRequest::default()
    };
    let stream = operations.shrink_storage(shrink(123_456_789)).await;
    let told = operation_messages::all(stream.unwrap().into_inner()).await;
    operation_messages::completed(&told);
    let lost = before - bytes().await;
    assert!(lost <= 123_456_789 && lost > 123_450_000, "{lost}");
    assert!(
        told.last().unwrap().msg.contains(&lost.to_string()),
        "{told:?}"
    );
    let expand = ExpandStorageRequest {
        min_bytes: 50_000_000,
        ..ExpandStorageRequest::default()
    };
    let small = bytes().await;
    let stream = operations.expand_storage(expand).await;
    let told = operation_messages::all(stream.unwrap().into_inner()).await;
    operation_messages::completed(&told);
    let gained = bytes().await - small;
    assert!((50_000_000..50_010_000).contains(&gained), "{gained}");
    assert!(
        told.last().unwrap().msg.contains(&gained.to_string()),
        "{told:?}"
    );
    // More than is free: down to what is used and the reserve, or to the least
    // size of a device.
    let stream = operations.shrink_storage(shrink(i32::MAX)).await;
    operation_messages::completed(&operation_messages::all(stream.unwrap().into_inner()).await);
    assert!(bytes().await < small);
    writer.finish();
    assert_eq!(devices(&world, "ONLINE").await, 1);
}
