//! What a crash can leave half made is cleared away at the next start.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use strata_testkit::{Daemon, TEST_TIMEOUT, holds, wait_for};

use crate::survival::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_cells_and_orphaned_cgroups_are_removed() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("whole").await.unwrap();
    let before = daemon.host().settled().await;
    daemon.kill();

    let cells = daemon.data_dir().join("node/cells");
    // A directory that never got its record, one whose record is empty, and one
    // inside a cell that is whole.
    let dirs = ["half", "torn", "whole/cells/inner"].map(|name| cells.join(name));
    for dir in &dirs {
        fs::create_dir_all(dir.join("run-17")).unwrap();
    }
    fs::write(cells.join("torn/cell.json"), "").unwrap();
    // Their groups, and one that has no directory at all, with somebody in it.
    let groups: Vec<PathBuf> = ["half", "half/deeper", "torn", "whole/inner", "nobody"]
        .iter()
        .map(|name| daemon.host().cgroup("pids").join(name))
        .collect();
    for group in &groups {
        fs::create_dir_all(group).unwrap();
    }
    let mut squatter = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    fs::write(groups[4].join("cgroup.procs"), squatter.id().to_string()).unwrap();

    daemon.restart().await;
    wait_for("the squatter to be ended", TEST_TIMEOUT, async || {
        holds(squatter.try_wait().unwrap().is_some())
    })
    .await;
    for path in dirs.iter().chain(&groups) {
        assert!(!path.exists(), "{}", path.display());
    }
    let node = daemon.node().await;
    assert_eq!(node.names().await, ["whole"]);
    let after = daemon.host().look();
    assert_eq!(after.cgroups, before.cgroups);
    for name in ["half", "torn", "whole/inner", "nobody"] {
        node.allocate(name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_never_started_leaves_neither_directory_nor_group() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    let before = daemon.host().settled().await;
    daemon.kill();
    let dir = daemon.data_dir().join("node/cells/web/run-17");
    fs::create_dir_all(&dir).unwrap();
    fs::create_dir(daemon.host().cgroup("pids").join("web/_r17")).unwrap();
    daemon.restart().await;
    let node = daemon.node().await;
    assert!(node.is_running("web", "main").await);
    assert!(!dir.exists());
    assert_eq!(daemon.host().look().cgroups, before.cgroups);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_ours_do_not_keep_it_from_starting() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    daemon.kill();
    let cells = daemon.data_dir().join("node/cells");
    fs::write(cells.join("a file"), "?").unwrap();
    fs::create_dir(cells.join("Not A Cell")).unwrap();
    fs::create_dir_all(cells.join("web/run-not-a-number")).unwrap();
    fs::write(cells.join("web/stray"), "?").unwrap();
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(node.names().await, ["web"]);
    assert_eq!(node.shell("web", "main", "echo works").await, "works");
    node.free("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_socket_and_a_stale_lock_are_no_obstacle() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    daemon.kill();
    let socket = daemon.data_dir().join("node.sock");
    assert!(socket.exists(), "a killed daemon leaves its socket");
    assert!(daemon.data_dir().join("lock").exists());
    daemon.restart().await;
    assert_eq!(daemon.node().await.names().await, ["web"]);
}
