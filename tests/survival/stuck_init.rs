//! An init that is slow or stopped is not an init that died: nothing it holds
//! is given up, and nothing else waits for it.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use strata_testkit::{Code, Daemon, Node, TEST_TIMEOUT, holds, wait_for};
use tokio::task::JoinSet;

use crate::survival::{STRATA, gone};

fn signal(pid: i64, signal: Signal) {
    let pid = i32::try_from(pid).expect("a pid is a small number");
    let pid = Pid::from_raw(pid).expect("it is running");
    kill_process(pid, signal).expect("it takes a signal");
}

async fn init_of(node: &Node, cell: &str) -> i64 {
    node.get(cell).await.expect("the cell is there").init_pid
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_init_is_found_again_after_a_restart_once_it_goes_on() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.allocate("other").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let init = init_of(&node, "web").await;
    daemon.kill();
    signal(init, Signal::STOP);
    daemon.restart().await;
    let node = daemon.node().await;
    // The rest of the node works meanwhile.
    node.start("other", "main", "true").await.unwrap();
    let refused = node.start("web", "second", "true").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    signal(init, Signal::CONT);
    wait_for("the cell to work again", TEST_TIMEOUT, async || {
        let started = node.start("web", "second", "true").await;
        started.map_err(|status| status.to_string())
    })
    .await;
    let run = node.executable("web", "main").await.unwrap();
    assert_eq!(run.process_id, pid);
    assert!(node.is_running("web", "main").await);
    assert_eq!(init_of(&node, "web").await, init);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_whose_init_is_stopped_can_be_freed() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let init = init_of(&node, "web").await;
    signal(init, Signal::STOP);
    let freeing = tokio::spawn({
        let node = node.clone();
        async move { node.free_now("web").await }
    });
    // Others are served while it waits.
    node.allocate("other").await.unwrap();
    assert!(node.names().await.contains(&"other".to_owned()));
    freeing.await.unwrap().unwrap();
    gone(pid).await;
    gone(init).await;
    assert_eq!(node.names().await, ["other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_costs_no_workload() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    daemon.kill();
    let record = daemon.data_dir().join("node/cells/web/cell.json");
    let good = fs::read_to_string(&record).unwrap();
    fs::write(&record, good.replace("\"host\"", "\"from_the_future\"")).unwrap();
    daemon.restart().await;
    assert!(daemon.node().await.names().await.is_empty());
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(daemon.log().contains("left unchanged"), "{}", daemon.log());
    daemon.kill();
    fs::write(&record, good).unwrap();
    daemon.restart().await;
    let node = daemon.node().await;
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_of_short_runs_does_not_affect_other_runs_of_the_cell() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "steady", "sleep 1000").await.unwrap();
    let mut starts = JoinSet::new();
    for i in 0..600 {
        let node = node.clone();
        starts.spawn(async move { node.start("web", &format!("short-{i}"), "true").await });
    }
    for started in starts.join_all().await {
        started.unwrap();
    }
    wait_for("all to be over", TEST_TIMEOUT, async || {
        let info = node.get("web").await.unwrap();
        let running = info
            .executables
            .iter()
            .filter(|run| run.exit_code.is_none());
        holds(running.count() == 1)
    })
    .await;
    assert!(node.is_running("web", "steady").await);
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(!daemon.log().contains("init exited"), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_not_taken_for_another() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let init = init_of(&node, "web").await;
    signal(init, Signal::STOP);
    let late = node.start("web", "late", "sleep 1000").await.unwrap_err();
    assert_eq!(late.code(), Code::Unavailable);
    signal(init, Signal::CONT);
    let pid = node.start("web", "next", "sleep 2000").await.unwrap();
    wait_for("the program to run", Duration::from_secs(10), async || {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        holds(words == b"sleep\x002000\0")
    })
    .await;
    assert!(
        !node
            .get("web")
            .await
            .unwrap()
            .executables
            .iter()
            .any(|run| run.name == "late")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn freeing_twice_is_fine_across_a_restart() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.free("web").await.unwrap();
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    node.free("web").await.unwrap();
    assert_eq!(node.free("never").await.unwrap_err().code(), Code::NotFound);
}
