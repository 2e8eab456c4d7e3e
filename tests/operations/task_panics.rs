//! A panic in any long-lived task of a daemon: the task is restarted, or the
//! process ends so that its service manager starts it again, and work goes on.
//! The tasks are those that `/metrics` names, so a new one is covered too.

use std::fs;
use std::path::{Path, PathBuf};

use strata_testkit::cluster::{Etcd, Switch};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{skip, wait_for};

use crate::operations::world::{TEST_TIMEOUT, World};

/// What debug builds read panics from (`strata-tasks`).
const PANIC_FILE: &str = "STRATA_TEST_PANIC_FILE";

/// One task as `/metrics` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    name: String,
    on_panic: String,
    running: u64,
    restarts: u64,
}

/// The value of `key="value"` in the labels of a series.
fn label(series: &str, key: &str) -> Option<String> {
    let (_, rest) = series.split_once(&format!("{key}=\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

fn read_tasks(metrics: &str) -> Vec<Task> {
    let series = |name: &'static str| {
        let lines = metrics.lines().filter_map(move |line| {
            let (labels, value) = line.strip_prefix(name)?.split_once("} ")?;
            Some((label(labels, "task")?, labels, value.parse::<u64>().ok()?))
        });
        lines.collect::<Vec<_>>()
    };
    let restarts = series("strata_task_restarts_total{");
    let of = |name: &str| restarts.iter().find(|(task, ..)| task == name);
    let running = series("strata_task_running{").into_iter();
    let tasks = running.map(|(name, labels, running)| Task {
        restarts: of(&name).expect("each task has all figures").2,
        on_panic: label(labels, "on_panic").expect("each task has a policy"),
        running,
        name,
    });
    tasks.collect()
}

async fn tasks(world: &World) -> Result<Vec<Task>, String> {
    let answer = world.rest().try_call("GET", "/metrics", Value::Null).await;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status {
        200 => Ok(read_tasks(&answer.body)),
        _ => Err(format!("{answer:?}")),
    }
}

async fn task(world: &World, name: &str) -> Result<Task, String> {
    let all = tasks(world).await?;
    let found = all.into_iter().find(|task| task.name == name);
    found.ok_or_else(|| format!("there is no task {name}"))
}

/// Has every task of a name panic.
fn request_panic(file: &Path, task: &str) {
    let written = file.with_extension("new");
    fs::write(&written, task).unwrap();
    fs::rename(&written, file).unwrap();
}

/// Has a task panic, and waits until it runs again.
async fn panic_once(world: &mut World, file: &Path, name: &str) {
    let before = task(world, name).await.unwrap();
    request_panic(file, name);
    if before.on_panic == "exit" {
        let status = world.daemon.ended().await;
        assert_eq!(status.code(), Some(1), "{name}: {status}");
        let why = format!("task {name} panicked: requested by a test");
        let log = world.daemon.log();
        assert!(log.contains(&why), "{name}: {log}");
        return world.daemon.restart().await;
    }
    assert_eq!(before.on_panic, "restart", "{name}");
    wait_for(
        &format!("{name} to be restarted"),
        TEST_TIMEOUT,
        async || {
            let now = task(world, name).await?;
            match now.restarts > before.restarts && now.running > 0 {
                true => Ok(()),
                false => Err(format!("{before:?}, now {now:?}")),
            }
        },
    )
    .await;
}

/// An instance is created, placed, started, reported and deleted.
async fn work_gets_done(world: &World, name: &str) {
    let id = world.instance(name, json!({})).await;
    world.runs(&id, None).await;
    let path = format!("/instance/{id}");
    let deleted = world.rest().call("DELETE", &path, Value::Null).await;
    assert!(deleted.status < 300, "{name}: {deleted:?}");
    wait_for(&format!("{name} to be gone"), TEST_TIMEOUT, async || {
        let answer = world.rest().try_call("GET", &path, Value::Null).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status {
            404 => Ok(()),
            _ => Err(format!("{answer:?}")),
        }
    })
    .await;
}

async fn start(mut world: World) -> (World, PathBuf) {
    let file = world.daemon.scratch().join("panic");
    world.daemon.set_environment(PANIC_FILE, &file);
    world.daemon.restart().await;
    (world, file)
}

/// Panics in every task that runs, one after the other.
async fn panic_in_each(world: &mut World, file: &Path, expected: &[&str]) {
    // With it there are the tasks of units, too.
    let health = json!({ "exec": ["/bin/busybox", "true"], "intervalSeconds": 1 });
    let lasting = world.instance("lasting", json!({ "health": health })).await;
    world.runs(&lasting, None).await;
    let all = wait_for("all tasks", TEST_TIMEOUT, async || {
        let mut all = tasks(world).await?;
        all.retain(|task| task.running > 0);
        let runs = |name: &&&str| all.iter().any(|task| task.name == **name);
        match expected.iter().all(|name| runs(&name)) {
            true => Ok(all),
            false => Err(format!("{all:?}")),
        }
    })
    .await;
    for (number, Task { name, .. }) in all.iter().enumerate() {
        panic_once(world, file, name).await;
        work_gets_done(world, &format!("after-{number}")).await;
    }
    let lasting = world.runs(&lasting, None).await;
    assert_eq!(
        lasting["restarts"], 0,
        "it ran through all of this: {lasting}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_recovers_from_a_panic_in_each_of_its_tasks() {
    if !cfg!(debug_assertions) {
        return skip("release builds have no panics on request");
    }
    let (mut world, file) = start(World::stopped("").await).await;
    let expected = [
        "agent-link",
        "agent-unit-events",
        "autoscaler",
        "backup-schedules",
        "cell-events",
        "cluster-endpoints",
        "cluster-reconciler",
        "dns-server",
        "health-check",
        "image-gc",
        "liveness",
        "log-watcher",
        "machine-inventory",
        "operations",
        "placement",
        "server-listener",
        "store-follower",
        "unit-monitor",
    ];
    panic_in_each(&mut world, &file, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_leads_again_after_a_panic_of_its_leadership() {
    if !cfg!(debug_assertions) {
        return skip("release builds have no panics on request");
    }
    if !Etcd::is_installed() {
        return skip("there is no etcd on this machine");
    }
    let switch = Switch::new();
    let etcd = Etcd::start(&switch);
    let plug = switch.plug(1);
    let config = format!("[store]\netcd = [\"{}\"]\n", etcd.url);
    let world = World::stopped_on(&plug.network, "192.0.2.1:7700", &config).await;
    let (mut world, file) = start(world).await;
    for name in ["leadership", "server-registration", "table-freshness"] {
        panic_once(&mut world, &file, name).await;
        work_gets_done(&world, &format!("after-{name}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_of_a_shutdown_end_within_their_deadlines() {
    let mut world = World::start("").await;
    let id = world.instance("lasting", json!({})).await;
    world.runs(&id, None).await;
    let (status, _) = world.daemon.terminate().await;
    assert!(status.success(), "{status}");
    let log = world.daemon.log();
    assert!(!log.contains("did not end before the deadline"), "{log}");
    world.daemon.restart().await;
    let lasting = world.runs(&id, None).await;
    assert_eq!(lasting["restarts"], 0, "{lasting}");
}
