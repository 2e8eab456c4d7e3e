//! Deaths: of the daemon around at any moment, of a machine's PID 1, of its
//! daemon. Machines go on or come back, or were never there.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use strata_testkit::machines::{HostDaemon, machine};
use strata_testkit::pods::idle;
use strata_testkit::v1::PodState;
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::spawn::STRATA;

pub(crate) fn kill(pid: i64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_go_on_without_the_daemon_around_and_are_found_again() {
    let mut outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    inside
        .node
        .run_pod(idle("p", &inside.busybox()))
        .await
        .unwrap();
    outside.daemon.kill();
    assert_eq!(inside.node.says("p", "echo here").await, "here");
    outside.daemon.restart().await;
    let found = outside.node().await.machine("n1").await.unwrap();
    assert!(found.running, "{found:?}");
    assert_eq!(found.process_id, inside.machine.process_id);
    let inside = outside.reach(found).await;
    assert_eq!(inside.node.says("p", "echo here").await, "here");
    let node = outside.node().await;
    // Its address is not given to another.
    let other = node.spawn(machine("n2")).await.unwrap();
    assert_ne!(other.address, inside.machine.address);
    node.destroy_machine("n1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_first_process_dies_comes_back_with_its_pods() {
    let outside = HostDaemon::start(STRATA).await;
    let node = outside.node().await;
    let inside = outside.spawn(machine("n1")).await;
    inside
        .node
        .run_pod(idle("p", &inside.busybox()))
        .await
        .unwrap();
    let before = inside.machine.process_id;
    kill(before);
    let back = node
        .machine_until("n1", |now| now.running && now.process_id != before)
        .await;
    let inside = outside.reach(back).await;
    let running = |pod: &strata_testkit::v1::Pod| pod.state() == PodState::Running;
    inside.node.pod_until("p", running).await;
    assert_eq!(inside.node.says("p", "echo here").await, "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_machines_daemon_is_a_restart_of_it_alone() {
    let outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    inside
        .node
        .run_pod(idle("p", &inside.busybox()))
        .await
        .unwrap();
    let pod = inside.node.pod("p").await.unwrap();
    let pid_1 = inside.machine.process_id;
    let children = format!("/proc/{pid_1}/task/{pid_1}/children");
    let daemon = || -> Option<i64> {
        let all = fs::read_to_string(&children).ok()?;
        let is_daemon = |pid: &&str| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with("strata\0node")
        };
        all.split_whitespace().find(is_daemon)?.parse().ok()
    };
    let first = daemon().unwrap();
    kill(first);
    wait_for("another daemon", TEST_TIMEOUT, async || {
        holds(daemon().is_some_and(|now| now != first))
    })
    .await;
    let inside = outside
        .reach(outside.node().await.machine("n1").await.unwrap())
        .await;
    assert_eq!(inside.machine.process_id, pid_1);
    let again = inside.node.pod("p").await.unwrap();
    assert_eq!(again.process_id, pod.process_id);
}

/// How far a machine has come to be.
type Sign = fn(&Path, &Path) -> bool;

#[tokio::test(flavor = "multi_thread")]
async fn unready_nested_node_is_removed_after_a_daemon_kill() {
    let has = |dir: &Path, name: &str| dir.join(name).exists();
    let signs: [Sign; 4] = [
        |machines, _| fs::read_dir(machines.join("folders")).is_ok_and(|all| all.count() > 0),
        |machines, _| machines.join("records/n1.json").exists(),
        |machines, _| machines.join("cells/n1/cell.json").exists(),
        |_, cgroup| {
            let runs = fs::read_dir(cgroup).into_iter().flatten().flatten();
            runs.into_iter().any(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("_r") && entry.path().join("strata").exists()
            })
        },
    ];
    let mut outside = HostDaemon::start(STRATA).await;
    let node = outside.node().await;
    node.spawn(machine("first")).await.unwrap();
    node.destroy_machine("first").await.unwrap();
    let machines = outside.daemon.data_dir().join("node/_machines");
    for (i, sign) in signs.into_iter().enumerate() {
        let node = outside.node().await;
        let cgroup = outside.daemon.host().cgroup("pids").join("_machines/n1");
        let making = tokio::spawn(async move { node.spawn(machine("n1")).await });
        let mut finished = false;
        while !sign(&machines, &cgroup) && !finished {
            tokio::task::yield_now().await;
            finished = making.is_finished();
        }
        outside.daemon.kill();
        let answered = making.await.unwrap().is_ok();
        outside.daemon.restart().await;
        let node = outside.node().await;
        let found = node.machines().await.unwrap();
        if answered {
            // Too fast for us: then it is there, whole.
            assert_eq!(found.len(), 1, "{i}: {found:?}");
            node.destroy_machine("n1").await.unwrap();
        } else {
            assert!(found.is_empty(), "{i}: {found:?}");
        }
        wait_for("nothing to be left", TEST_TIMEOUT, async || {
            let left = !has(&machines, "records/n1.json") && !cgroup.exists();
            holds(left && fs::read_dir(machines.join("folders")).unwrap().count() == 0)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_that_was_cut_short_is_finished() {
    let mut outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    // Something that keeps it from ending at once.
    inside.node.allocate("a").await.unwrap();
    inside.node.start_deaf("a", "deaf", 60_000).await.unwrap();
    let node = outside.node().await;
    let going = tokio::spawn(async move { node.destroy_machine("n1").await });
    let record = outside
        .daemon
        .data_dir()
        .join("node/_machines/records/n1.json");
    wait_for("a destroy to begin", TEST_TIMEOUT, async || {
        let text = fs::read_to_string(&record).unwrap_or_default();
        holds(text.contains("\"destroying\":true"))
    })
    .await;
    outside.daemon.kill();
    let _ = going.await;
    outside.daemon.restart().await;
    let node = outside.node().await;
    wait_for("the machine to be gone", TEST_TIMEOUT, async || {
        holds(node.machines().await.unwrap().is_empty())
    })
    .await;
    wait_for("its disk to be gone", TEST_TIMEOUT, async || {
        let dirs = outside.daemon.data_dir().join("node/_machines/folders");
        holds(fs::read_dir(dirs).unwrap().count() == 0)
    })
    .await;
}
