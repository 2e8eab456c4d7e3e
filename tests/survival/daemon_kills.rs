//! `kill -9` of the daemon, and of what it stands on.

use std::fs;
use std::time::Duration;

use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::{CellState, ExecutableState, MemoryLimit};
use strata_testkit::{Code, Daemon, TEST_TIMEOUT, cell_with, holds, refused, same, wait_for};

use crate::survival::{STRATA, after, gone, kill};

#[tokio::test(flavor = "multi_thread")]
async fn cells_and_executables_are_there_again_with_their_pids() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("web", |options| options.pids_max = Some(77));
    node.allocate_as(wanted.clone()).await.unwrap();
    node.allocate("web/in").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    node.start("web/in", "main", "sleep 1000").await.unwrap();
    node.start("web", "over", "sh -c 'exit 3'").await.unwrap();
    node.wait("web", "over").await.unwrap();
    let without_figures = |mut cells: Vec<strata_testkit::v1::CellInfo>| {
        cells.iter_mut().for_each(|cell| cell.usage = None);
        for executable in cells.iter_mut().flat_map(|cell| &mut cell.executables) {
            // Known to the nanosecond by who saw it start; close enough.
            executable.started_at_ms /= 10_000;
        }
        cells
    };
    let before = without_figures(node.list().await.unwrap());
    for _ in 0..3 {
        daemon.kill();
        daemon.restart().await;
        let node = daemon.node().await;
        assert_eq!(without_figures(node.list().await.unwrap()), before);
    }
    let node = daemon.node().await;
    // And they are in hand: stopped, started, freed, allocated again.
    node.allocate_as(wanted).await.unwrap();
    node.stop("web", "main").await.unwrap();
    assert_eq!(node.wait("web", "main").await.unwrap().signal, Some(15));
    assert_eq!(node.shell("web", "main", "echo again").await, "again");
    node.free("web").await.unwrap();
    assert!(node.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn exits_during_daemon_downtime_are_known() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let go = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = after(&go, "echo late; echo last >&2; exit 5");
    let exits = node.start("web", "exits", &script).await.unwrap();
    let script = after(&go, "setsid sleep 1000 & kill -KILL $$");
    let dies = node.start("web", "dies", &script).await.unwrap();
    daemon.kill();
    go.open();
    gone(exits).await;
    gone(dies).await;
    daemon.restart().await;
    let node = daemon.node().await;
    let ended = node.wait("web", "exits").await.unwrap();
    assert_eq!((ended.exit_code, ended.process_id), (Some(5), exits));
    assert!(ended.ended_at_ms >= ended.started_at_ms && ended.started_at_ms > 0);
    assert_eq!(node.stdout(exits).await.unwrap(), ["late"]);
    let ended = node.wait("web", "dies").await.unwrap();
    assert_eq!(ended.reason, "killed by SIGKILL");
    // What it had forked went along, late but surely.
    wait_for(
        "what it had forked to be reaped",
        TEST_TIMEOUT,
        async || {
            let usage = node.get("web").await.unwrap().usage.unwrap();
            same(usage.pids, &1)
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_written_without_readers() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let go = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("echo before; {}; seq 1 20000; echo -n partial", go.wait());
    let pid = node
        .start("web", "main", &format!("sh -c '{script}'"))
        .await
        .unwrap();
    let mut lines = node.stream(ChannelStdout, pid).await.unwrap();
    assert_eq!(lines.message().await.unwrap().unwrap().line, "before");
    daemon.kill();
    assert!(!matches!(lines.message().await, Ok(Some(_))));
    go.open();
    gone(pid).await;
    daemon.restart().await;
    let lines = daemon.node().await.stdout(pid).await.unwrap();
    assert_eq!(lines.len(), 20_002);
    assert_eq!(lines[20_000], "20000");
    assert_eq!(lines[20_001], "partial");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_cut_short_can_be_given_again() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start_deaf("web", "main", 10_000).await.unwrap();
    let stopping = tokio::spawn({
        let node = node.clone();
        async move { node.stop("web", "main").await }
    });
    wait_for("it to be stopping", TEST_TIMEOUT, async || {
        let state = node.executable("web", "main").await.unwrap().state();
        holds(state == ExecutableState::Stopping)
    })
    .await;
    daemon.kill();
    stopping.await.unwrap().unwrap_err();
    daemon.restart().await;
    let node = daemon.node().await;
    let shown = node.executable("web", "main").await.unwrap();
    assert_eq!(
        (shown.state(), shown.process_id),
        (ExecutableState::Running, pid)
    );
    node.stop_within("web", "main", Duration::ZERO)
        .await
        .unwrap();
    gone(pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_whose_init_died_during_daemon_downtime_can_be_restarted() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let init = node.get("web").await.unwrap().init_pid;
    daemon.kill();
    kill(init);
    gone(init).await;
    gone(pid).await;
    daemon.restart().await;
    let node = daemon.node().await;
    let dead = node.get("web").await.unwrap();
    assert_eq!(dead.state(), CellState::Dead);
    assert!(dead.executables[0].reason.contains("lost"), "{dead:?}");
    assert_eq!(node.shell("web", "again", "echo back").await, "back");
    assert_eq!(node.get("web").await.unwrap().state(), CellState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_shim_leaves_cells_running_and_is_replaced() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("old").await.unwrap();
    let pid = node.start("old", "main", "sleep 1000").await.unwrap();
    let shim = shim(&daemon);
    kill(shim);
    wait_for("the shim to be dead", TEST_TIMEOUT, async || {
        let stat = fs::read_to_string(format!("/proc/{shim}/stat")).unwrap_or_default();
        holds(stat.is_empty() || stat.contains(") Z "))
    })
    .await;
    assert!(node.is_running("old", "main").await);
    node.allocate("new").await.unwrap();
    assert_eq!(node.shell("new", "main", "echo works").await, "works");
    assert_eq!(node.shell("old", "more", "echo works").await, "works");
    assert_eq!(
        node.executable("old", "main").await.unwrap().process_id,
        pid
    );
    wait_for("the shim to be reaped", TEST_TIMEOUT, async || {
        same(daemon.host().look().zombies.len(), &0)
    })
    .await;
    node.free("old").await.unwrap();
    node.free("new").await.unwrap();
    gone(pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shim_killed_during_daemon_downtime_is_replaced() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("old").await.unwrap();
    let pid = node.start("old", "main", "sleep 1000").await.unwrap();
    let shim = shim(&daemon);
    daemon.kill();
    kill(shim);
    gone(shim).await;
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(
        node.executable("old", "main").await.unwrap().process_id,
        pid
    );
    assert!(node.is_running("old", "main").await);
    node.allocate("new").await.unwrap();
    node.free("old").await.unwrap();
    gone(pid).await;
}

/// The process that all outermost cells are children of.
fn shim(daemon: &Daemon) -> i64 {
    let processes = daemon.host().look().processes;
    let is_shim = |pid: &&i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with(b"strata-init\0keeper\0")
    };
    i64::from(*processes.keys().find(is_shim).expect("there is a shim"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_with_all_the_executables_it_can_hold_is_found_again() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("many").await.unwrap();
    for i in 0..256 {
        let name = format!("e{i}");
        node.start("many", &name, "sleep 1000").await.unwrap();
    }
    let before = node.get("many").await.unwrap();
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    let after = node.get("many").await.unwrap();
    assert_eq!(after.state(), CellState::Ready);
    let pids = |cell: &strata_testkit::v1::CellInfo| -> Vec<(i64, i32)> {
        let view = |e: &strata_testkit::v1::ExecutableInfo| (e.process_id, e.state);
        cell.executables.iter().map(view).collect()
    };
    assert_eq!(pids(&after), pids(&before));
    node.free_now("many").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_was_held_up_hears_of_every_end() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("many").await.unwrap();
    node.start("many", "anchor", "sleep 1000").await.unwrap();
    let mut pids = Vec::new();
    for i in 0..255 {
        let (name, script) = (format!("e{i}"), format!("sh -c '{}; exit 4'", gate.wait()));
        pids.push(node.start("many", &name, &script).await.unwrap());
    }
    let pid = rustix::process::Pid::from_raw(daemon.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    gate.open();
    for pid in pids {
        gone(pid).await;
    }
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    for i in 0..255 {
        let ended = node.wait("many", &format!("e{i}")).await.unwrap();
        assert_eq!(ended.exit_code, Some(4), "{ended:?}");
    }
    assert!(node.is_running("many", "anchor").await);
    assert_eq!(node.get("many").await.unwrap().state(), CellState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_status_is_unchanged_after_a_restart() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("small", |options| {
        options.memory = Some(MemoryLimit {
            max: Some(16 << 20),
            ..Default::default()
        });
    });
    node.allocate_as(wanted).await.unwrap();
    node.start("small", "killed", "sh -c 'kill -KILL $$'")
        .await
        .unwrap();
    let killed = node.wait("small", "killed").await.unwrap();
    let hog = "sh -c 'x=0123456789abcdef; while :; do x=$x$x; done'";
    node.start("small", "hog", hog).await.unwrap();
    let hog = node.wait("small", "hog").await.unwrap();
    assert_eq!(killed.reason, "killed by SIGKILL");
    assert_eq!(hog.reason, "killed: out of memory");
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    for before in [killed, hog] {
        let after = node.wait("small", &before.name).await.unwrap();
        assert_eq!(after, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freed_cell_stays_freed() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("gone").await.unwrap();
    node.allocate("kept").await.unwrap();
    node.free("gone").await.unwrap();
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(node.names().await, ["kept"]);
    refused(node.get("gone").await, Code::NotFound);
}
