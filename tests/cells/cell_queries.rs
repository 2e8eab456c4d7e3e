//! List, Get, Watch and Wait.

use strata_testkit::v1::{ListCellsRequest, WaitExecutableRequest, WatchCellsRequest};
use strata_testkit::{Code, Daemon, TEST_TIMEOUT, field_of, holds, refused, wait_for};

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_listed_in_the_order_of_their_names() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    assert!(node.names().await.is_empty());
    for name in ["b", "a", "a/z", "a/b", "a-b"] {
        node.allocate(name).await.unwrap();
    }
    assert_eq!(node.names().await, ["a", "a/b", "a/z", "a-b", "b"]);
    let request = ListCellsRequest { under: "a".into() };
    let answer = node.client().cells().list(request).await.unwrap();
    let answer = answer.into_inner();
    let names: Vec<&str> = answer.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(names, ["a", "a/b", "a/z"]);
    assert!(answer.observed_at_ms > 1_600_000_000_000);
    let request = ListCellsRequest { under: "..".into() };
    let status = node.client().cells().list(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(field_of(&status).as_deref(), Some("under"));
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_measured() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("busy").await.unwrap();
    node.start("busy", "spin", "sh -c 'while :; do :; done'")
        .await
        .unwrap();
    wait_for("cpu time to add up", TEST_TIMEOUT, async || {
        let usage = node.get("busy").await.unwrap().usage.unwrap();
        holds(usage.cpu_usec > 50_000 && usage.memory_bytes > 0 && usage.pids == 2)
    })
    .await;
    node.stop("busy", "spin").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_sends_the_cells_at_each_interval_and_sees_changes() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("a").await.unwrap();
    let request = WatchCellsRequest {
        under: String::new(),
        interval_ms: Some(100),
    };
    let answer = node.client().cells().watch(request).await.unwrap();
    let mut stream = answer.into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.cells.len(), 1);
    node.allocate("b").await.unwrap();
    let mut last = first.observed_at_ms;
    loop {
        let next = stream.message().await.unwrap().unwrap();
        assert!(next.observed_at_ms > last);
        last = next.observed_at_ms;
        if next.cells.len() == 2 {
            break;
        }
    }
    for interval in [0, 99, 60_001, u32::MAX] {
        let request = WatchCellsRequest {
            under: String::new(),
            interval_ms: Some(interval),
        };
        let status = node.client().cells().watch(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(field_of(&status).as_deref(), Some("interval_ms"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_answers_every_waiter_once_it_has_ended() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sh -c 'sleep 1000 & wait'")
        .await
        .unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let node = node.clone();
            tokio::spawn(async move { node.wait("web", "main").await })
        })
        .collect();
    node.stop("web", "main").await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().unwrap().signal, Some(15));
    }
    // One that has ended already is no reason to wait.
    assert_eq!(node.wait("web", "main").await.unwrap().signal, Some(15));
    refused(node.wait("web", "none").await, Code::NotFound);
    refused(node.wait("none", "main").await, Code::NotFound);
    let request = WaitExecutableRequest {
        cell_name: "web".into(),
        executable_name: "A".into(),
    };
    let status = node.client().cells().wait(request).await.unwrap_err();
    assert_eq!(field_of(&status).as_deref(), Some("executable_name"));
}
