//! Stop, and ends that nobody asked for: whatever an executable forked goes
//! with it.

use std::time::{Duration, Instant};

use strata_testkit::v1::{CellState, ExecutableState};
use strata_testkit::{
    Code, Daemon, Node, TEST_TIMEOUT, executable_with, holds, refused, same, wait_for,
};

use crate::cells::STRATA;

const STUBBORN: &str = "sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done'";

/// Waits until an executable has printed its first line.
async fn spoken(node: &Node, pid: i64) -> String {
    use strata_testkit::observe::LogChannelType::ChannelStdout;
    let mut lines = node.stream(ChannelStdout, pid).await.expect("it runs");
    let line = lines.message().await.expect("its output can be read");
    line.expect("it speaks before it ends").line.to_string()
}

/// Names of the processes of a run that run this command.
fn running(daemon: &Daemon, seconds: &str) -> usize {
    let pids = daemon.host().look().processes;
    let runs = |pid: &&i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command
            .split(|byte| *byte == 0)
            .any(|word| word == seconds.as_bytes())
    };
    pids.keys().filter(runs).count()
}

/// Waits until the kernel counts one process in a cell.
async fn only_its_init_is_left(node: &Node, cell: &str) {
    wait_for("the dead to be reaped", TEST_TIMEOUT, async || {
        let cell = node.get(cell).await.map_err(|status| status.to_string())?;
        same(cell.usage.map(|usage| usage.pids), &Some(1))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_asks_first() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let polite = "sh -c 'trap \"echo bye; exit 4\" TERM; echo ready; while :; do sleep 0.01; done'";
    let pid = node.start("web", "main", polite).await.unwrap();
    assert_eq!(spoken(&node, pid).await, "ready");
    node.stop("web", "main").await.unwrap();
    let ended = node.executable("web", "main").await.unwrap();
    assert_eq!(ended.exit_code, Some(4));
    assert_eq!(node.stdout(pid).await.unwrap(), ["ready", "bye"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn executable_that_ignores_sigterm_is_killed_after_its_grace() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let wanted = executable_with("web", "main", STUBBORN, |o| o.stop_grace_ms = Some(300));
    let pid = node.start_as(wanted).await.unwrap();
    spoken(&node, pid).await;
    let begin = Instant::now();
    node.stop("web", "main").await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    let ended = node.executable("web", "main").await.unwrap();
    assert_eq!(ended.state(), ExecutableState::Exited);
    assert_eq!(ended.signal, Some(9));
    assert_eq!(ended.reason, "killed by SIGKILL");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_given_time_it_is_shown_as_stopping() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", STUBBORN).await.unwrap();
    spoken(&node, pid).await;
    let (stopper, patient) = (node.clone(), Duration::from_secs(600));
    let stop = tokio::spawn(async move { stopper.stop_within("web", "main", patient).await });
    wait_for("it to be stopping", TEST_TIMEOUT, async || {
        let state = node.executable("web", "main").await.unwrap().state();
        holds(state == ExecutableState::Stopping)
    })
    .await;
    // Another caller may have less patience.
    node.stop_within("web", "main", Duration::ZERO)
        .await
        .unwrap();
    stop.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_takes_along_what_was_forked_even_into_another_session() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'sleep 7001 & setsid sleep 7001 & \
                  (setsid sh -c \"trap : TERM; sleep 7001 & echo ready; wait; wait\" &) ; wait'";
    let pid = node.start("web", "main", script).await.unwrap();
    node.start("web", "other", "sleep 7002").await.unwrap();
    spoken(&node, pid).await;
    wait_for("all of them to run", TEST_TIMEOUT, async || {
        holds(running(&daemon, "7001") == 3)
    })
    .await;
    node.stop("web", "main").await.unwrap();
    assert_eq!(running(&daemon, "7001"), 0);
    assert_eq!(running(&daemon, "7002"), 1);
    wait_for("the dead to be reaped", TEST_TIMEOUT, async || {
        same(daemon.host().look().zombies.len(), &0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_main_process_takes_what_is_left_along() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'setsid sleep 7003 & sleep 7003 & exit 2'";
    node.start("web", "main", script).await.unwrap();
    let ended = node.wait("web", "main").await.unwrap();
    assert_eq!(ended.exit_code, Some(2));
    assert_eq!(running(&daemon, "7003"), 0);
    only_its_init_is_left(&node, "web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_can_be_stopped() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let wanted = strata_testkit::cell_with("bomb", |o| o.pids_max = Some(60));
    node.allocate_as(wanted).await.unwrap();
    let bomb =
        "sh -c 'f() { setsid sh -c \"sleep 7004; sleep 7004\" & f | f & }; f; f; wait; sleep 7004'";
    node.start("bomb", "main", bomb).await.unwrap();
    wait_for("it to spread", TEST_TIMEOUT, async || {
        let info = node.executable("bomb", "main").await.unwrap();
        holds(running(&daemon, "7004") > 3 || info.state() == ExecutableState::Exited)
    })
    .await;
    node.stop_within("bomb", "main", Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(running(&daemon, "7004"), 0);
    only_its_init_is_left(&node, "bomb").await;
    node.free("bomb").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_twice_is_fine_and_stopping_the_unknown_is_not() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    for _ in 0..3 {
        node.stop("web", "main").await.unwrap();
    }
    let words = refused(node.stop("web", "none").await, Code::NotFound);
    assert!(words.contains("none"), "{words}");
    refused(node.stop("none", "main").await, Code::NotFound);
    let stops = (0..20).map(|_| {
        let node = node.clone();
        tokio::spawn(async move { node.stop("web", "again").await })
    });
    node.start("web", "again", "sleep 1000").await.unwrap();
    for stop in stops.collect::<Vec<_>>() {
        stop.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_whose_init_was_killed_is_dead_until_something_is_started() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.allocate("web/in").await.unwrap();
    node.start("web", "main", "sleep 7005").await.unwrap();
    node.start("web/in", "main", "sleep 7005").await.unwrap();
    let init = node.get("web").await.unwrap().init_pid;
    let pid = rustix::process::Pid::from_raw(i32::try_from(init).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for cell in ["web", "web/in"] {
        let dead = wait_for("the cell to be dead", TEST_TIMEOUT, async || {
            let info = node.get(cell).await.unwrap();
            holds(info.state() == CellState::Dead).map(|()| info)
        })
        .await;
        assert_eq!(dead.init_pid, 0);
        assert!(!dead.reason.is_empty());
        let ended = node.wait(cell, "main").await.unwrap();
        assert_eq!((ended.exit_code, ended.signal), (None, None));
        assert!(ended.reason.contains("lost"), "{ended:?}");
    }
    assert_eq!(running(&daemon, "7005"), 0);
    // The inner one first: it needs the outer one alive.
    node.start("web/in", "again", "sleep 7006").await.unwrap();
    for cell in ["web", "web/in"] {
        let info = node.get(cell).await.unwrap();
        assert_eq!(info.state(), CellState::Ready, "{cell}");
        assert_ne!(info.init_pid, 0, "{cell}");
    }
    assert_eq!(running(&daemon, "7006"), 1);
    node.free("web").await.unwrap();
    assert_eq!(running(&daemon, "7006"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_cell_can_be_freed_and_allocated_again() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    for round in 0..2 {
        node.allocate("web").await.unwrap();
        let init = node.get("web").await.unwrap().init_pid;
        let pid = rustix::process::Pid::from_raw(i32::try_from(init).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        wait_for("the cell to be dead", TEST_TIMEOUT, async || {
            holds(node.get("web").await.unwrap().state() == CellState::Dead)
        })
        .await;
        if round == 0 {
            node.free("web").await.unwrap();
        } else {
            node.allocate("web").await.unwrap();
            assert_eq!(node.get("web").await.unwrap().state(), CellState::Ready);
        }
    }
}
