//! Many readers, slow readers, and readers of what goes away.

use std::time::Duration;

use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::ReadLogsRequest;
use strata_testkit::{Code, Daemon, TEST_TIMEOUT, all, same, wait_for};
use tokio::task::JoinSet;

use crate::logs::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_followers_each_get_every_line() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'echo begin; {}; seq 1 2000'", gate.wait());
    let pid = node.start("web", "main", &script).await.unwrap();
    let before = daemon.open_files();
    let mut readers = JoinSet::new();
    for _ in 0..100 {
        let mut stream = node.stream(ChannelStdout, pid).await.unwrap();
        assert_eq!(stream.message().await.unwrap().unwrap().line, "begin");
        readers.spawn(async move { all(stream).await });
    }
    gate.open();
    for items in readers.join_all().await {
        let lines = items.unwrap().into_iter().map(|item| item.line.to_string());
        assert!(lines.eq((1..=2000).map(|i| i.to_string())));
    }
    wait_for(
        "the readers' files to be closed",
        TEST_TIMEOUT,
        async || same(daemon.open_files() <= before, &true),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_log_reader_blocks_no_other_reader_and_loses_nothing() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'echo begin; {}; seq 1 800000'", gate.wait());
    let pid = node.start("web", "main", &script).await.unwrap();
    let mut stream = node.stream(ChannelStdout, pid).await.unwrap();
    stream.message().await.unwrap().unwrap();
    gate.open();
    // Several megabytes are written while nobody reads.
    let ended = tokio::time::timeout(TEST_TIMEOUT, node.wait("web", "main")).await;
    assert_eq!(
        ended.expect("the writer is not held up").unwrap().exit_code,
        Some(0)
    );
    let mut next = 1;
    while let Some(item) = stream.message().await.unwrap() {
        assert_eq!(&*item.line, next.to_string());
        next += 1;
    }
    assert_eq!(next, 800_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_of_a_cell_that_is_freed_are_let_go_without_a_fuss() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    for _ in 0..3 {
        node.allocate("web").await.unwrap();
        let talk = "sh -c 'seq 1 100000; sleep 1000'";
        let pid = node.start("web", "main", talk).await.unwrap();
        let mut readers = JoinSet::new();
        for _ in 0..4 {
            let stream = node.stream(ChannelStdout, pid).await.unwrap();
            readers.spawn(async move { all(stream).await.map(|items| items.len()) });
            let request = ReadLogsRequest {
                cell_name: "web".into(),
                executable_name: "main".into(),
                follow: true,
                ..Default::default()
            };
            let stream = node.read(request).await.unwrap();
            readers.spawn(async move { all(stream).await.map(|lines| lines.len()) });
        }
        node.free("web").await.unwrap();
        let ends = tokio::time::timeout(Duration::from_secs(60), readers.join_all());
        for end in ends.await.expect("all are let go") {
            if let Err(status) = end {
                assert_eq!(status.code(), Code::NotFound, "{status:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_costs_nothing_any_more() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node
        .start("web", "main", "sh -c 'echo begin; sleep 1000'")
        .await
        .unwrap();
    // One reader to warm up what is opened once.
    let mut stream = node.stream(ChannelStdout, pid).await.unwrap();
    stream.message().await.unwrap();
    drop(stream);
    let before = daemon.open_files();
    for _ in 0..50 {
        let mut stream = node.stream(ChannelStdout, pid).await.unwrap();
        stream.message().await.unwrap();
    }
    wait_for(
        "the readers' files to be closed",
        TEST_TIMEOUT,
        async || same(daemon.open_files() <= before, &true),
    )
    .await;
}

/// HTTP/2 lets a client hold back what is above the limit, without an error.
/// Here it is refused, and what is short still gets its turn.
#[tokio::test(flavor = "multi_thread")]
async fn stream_beyond_the_limit_of_a_connection_is_refused() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sh -c 'echo begin; sleep 1000'");
    let pid = pid.await.unwrap();
    let mut open = Vec::new();
    for _ in 0..256 {
        open.push(node.stream(ChannelStdout, pid).await.unwrap());
    }
    let further = tokio::time::timeout(TEST_TIMEOUT, node.stream(ChannelStdout, pid)).await;
    let status = further.expect("it is answered").unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(
        status.message().contains("256 concurrent requests"),
        "{status}"
    );
    assert!(status.message().contains("another connection"), "{status}");
    open.truncate(200);
    node.names().await;
    node.stream(ChannelStdout, pid).await.unwrap();
}
