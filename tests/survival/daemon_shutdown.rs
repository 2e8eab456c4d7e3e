//! SIGTERM: the daemon ends in time, and the work goes on by default.

use std::time::Duration;

use strata_testkit::observe::GetAuraeDaemonLogStreamRequest;
use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::{ReadLogsRequest, WatchCellsRequest};
use strata_testkit::{Daemon, TEST_TIMEOUT, holds, wait_for};

use crate::survival::STRATA;

const IN_TIME: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn workloads_go_on_after_the_daemon_has_ended() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let (status, took) = daemon.terminate().await;
    assert!(status.success(), "{status}");
    assert!(took < IN_TIME, "{took:?}");
    let alive = daemon.host().look().processes;
    assert!(alive.contains_key(&i32::try_from(pid).unwrap()));
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(
        node.executable("web", "main").await.unwrap().process_id,
        pid
    );
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_shuts_down_in_time_despite_open_streams() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let mut lines = node.stream(ChannelStdout, pid).await.unwrap();
    let request = GetAuraeDaemonLogStreamRequest {};
    let mut observe = node.client().observe();
    let log = observe.get_aurae_daemon_log_stream(request).await;
    let mut log = log.unwrap().into_inner();
    let request = WatchCellsRequest::default();
    let mut watch = node
        .client()
        .cells()
        .watch(request)
        .await
        .unwrap()
        .into_inner();
    let read = ReadLogsRequest {
        cell_name: "web".into(),
        executable_name: "main".into(),
        follow: true,
        ..Default::default()
    };
    let mut read = node.read(read).await.unwrap();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.wait("web", "main").await }
    });
    let stopping = tokio::spawn({
        let node = node.clone();
        async move { node.wait("web", "main").await }
    });
    let (status, took) = daemon.terminate().await;
    assert!(status.success(), "{status}");
    assert!(took < IN_TIME, "{took:?}");
    // Whoever listened is let go, not left hanging.
    assert!(!matches!(lines.message().await, Ok(Some(_))));
    while let Ok(Some(_)) = log.message().await {}
    while let Ok(Some(_)) = watch.message().await {}
    while let Ok(Some(_)) = read.message().await {}
    waiting.await.unwrap().unwrap_err();
    stopping.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_without_cells_leaves_nothing_at_all() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.free("web").await.unwrap();
    daemon.terminate().await;
    let left = daemon.host().look();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_workloads_frees_every_cell() {
    let daemon = Daemon::build(STRATA).arg("--stop-workloads").start();
    let mut daemon = daemon.await;
    let node = daemon.node().await;
    for cell in ["a", "a/b", "c"] {
        node.allocate(cell).await.unwrap();
        node.start(cell, "main", "sh -c 'setsid sleep 1000 & sleep 1000'")
            .await
            .unwrap();
    }
    let (status, took) = daemon.terminate().await;
    assert!(status.success(), "{status}");
    assert!(took < IN_TIME, "{took:?}");
    let left = daemon.host().look();
    assert!(left.is_empty(), "{left:#?}");
    daemon.restart().await;
    assert!(daemon.node().await.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_workloads_ends_in_time_even_if_they_do_not_listen() {
    let daemon = Daemon::build(STRATA).arg("--stop-workloads").start();
    let mut daemon = daemon.await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    let stubborn = "sh -c 'trap \"\" TERM; while :; do sleep 1; done'";
    let pid = node.start("web", "main", stubborn).await.unwrap();
    let _follower = node.stream(ChannelStdout, pid).await.unwrap();
    let (status, took) = daemon.terminate().await;
    assert!(status.success(), "{status}");
    assert!(took < IN_TIME, "{took:?}");
    assert!(daemon.host().look().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_when_it_ends_is_finished_or_taken_up_again() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start_deaf("web", "main", 10_000).await.unwrap();
    let freeing = tokio::spawn({
        let node = node.clone();
        async move { node.free("web").await }
    });
    wait_for("the cell to be freeing", TEST_TIMEOUT, async || {
        let state = node.get("web").await.unwrap().state();
        holds(state == strata_testkit::v1::CellState::Freeing)
    })
    .await;
    let (_, took) = daemon.terminate().await;
    assert!(took < IN_TIME, "{took:?}");
    freeing.await.unwrap().unwrap_err();
    daemon.restart().await;
    let node = daemon.node().await;
    node.free_now("web").await.unwrap();
    assert!(node.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_ends_the_daemon_at_once() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    // A request under way, whose end the first signal waits for.
    let _follower = node.stream(ChannelStdout, pid).await.unwrap();
    daemon.signal_end();
    wait_for("the shutdown to begin", TEST_TIMEOUT, async || {
        holds(daemon.log().contains("SIGTERM"))
    })
    .await;
    let (status, _) = daemon.terminate().await;
    assert_eq!(status.code(), Some(1), "{status}: {}", daemon.log());
    assert!(daemon.log().contains("second signal"), "{}", daemon.log());
}
