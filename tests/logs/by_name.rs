//! `strata.v1.Logs`: by name, with a tail and a start.

use std::time::{SystemTime, UNIX_EPOCH};

use strata_testkit::v1::{LogChannel, LogLine, ReadLogsRequest};
use strata_testkit::{Code, Daemon, Node, TEST_TIMEOUT, all, field_of, holds, refused, wait_for};

use crate::logs::STRATA;

fn request() -> ReadLogsRequest {
    ReadLogsRequest {
        cell_name: "web".into(),
        executable_name: "main".into(),
        ..Default::default()
    }
}

async fn read(node: &Node, request: ReadLogsRequest) -> Vec<LogLine> {
    let stream = node.read(request).await.expect("the log can be read");
    all(stream).await.expect("the log can be read to its end")
}

fn texts(lines: &[LogLine]) -> Vec<String> {
    let text = |line: &LogLine| String::from_utf8_lossy(&line.line).into_owned();
    lines.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_chosen_and_none_means_both() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'echo out; echo err >&2; echo more'";
    node.start("web", "main", script).await.unwrap();
    node.wait("web", "main").await.unwrap();
    let mut only_out = request();
    only_out.stdout = true;
    let lines = read(&node, only_out).await;
    assert_eq!(texts(&lines), ["out", "more"]);
    assert!(lines.iter().all(|l| l.channel() == LogChannel::Stdout));
    let mut only_err = request();
    only_err.stderr = true;
    let lines = read(&node, only_err).await;
    assert_eq!(texts(&lines), ["err"]);
    assert_eq!(lines[0].channel(), LogChannel::Stderr);
    let mut both = request();
    (both.stdout, both.stderr) = (true, true);
    for request in [request(), both] {
        let lines = read(&node, request).await;
        let mut sorted = texts(&lines);
        sorted.sort();
        assert_eq!(sorted, ["err", "more", "out"]);
        let times: Vec<i64> = lines.iter().map(|line| line.written_at_ms).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_is_the_end_of_the_history() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "seq 1 1000").await.unwrap();
    node.wait("web", "main").await.unwrap();
    for (tail, first) in [
        (0, None),
        (1, Some("1000")),
        (5, Some("996")),
        (5000, Some("1")),
    ] {
        let mut request = request();
        request.tail = Some(tail);
        let lines = texts(&read(&node, request).await);
        assert_eq!(lines.first().map(String::as_str), first);
        assert_eq!(lines.len(), tail.min(1000) as usize);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_of_both_channels_counts_lines_and_not_channels() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done'";
    node.start("web", "main", script).await.unwrap();
    node.wait("web", "main").await.unwrap();
    let mut request = request();
    request.tail = Some(3);
    let lines = texts(&read(&node, request).await);
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_leaves_out_what_is_older() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'echo old; {}; echo new'", gate.wait());
    node.start("web", "main", &script).await.unwrap();
    let mut follow = request();
    follow.follow = true;
    let mut stream = node.read(follow).await.unwrap();
    let old = stream.message().await.unwrap().unwrap();
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    };
    assert!((now() - 60_000..=now()).contains(&old.written_at_ms));
    let between = old.written_at_ms + 1;
    wait_for("the clock to move on", TEST_TIMEOUT, async || {
        holds(now() > between)
    })
    .await;
    gate.open();
    let rest = texts(&all(stream).await.unwrap());
    assert_eq!(rest, ["new"]);
    for (since, wanted) in [
        (old.written_at_ms, vec!["old", "new"]),
        (between, vec!["new"]),
        (now() + 60_000, vec![]),
        (i64::MIN, vec!["old", "new"]),
        (i64::MAX, vec![]),
    ] {
        let mut request = request();
        request.since_ms = Some(since);
        assert_eq!(texts(&read(&node, request).await), wanted, "{since}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_follow_the_history_is_all() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'echo early; {}; echo late'", gate.wait());
    let pid = node.start("web", "main", &script).await.unwrap();
    wait_for("the first line to be kept", TEST_TIMEOUT, async || {
        holds(texts(&read(&node, request()).await) == ["early"])
    })
    .await;
    assert!(node.is_running("web", "main").await);
    let mut follow = request();
    (follow.follow, follow.tail) = (true, Some(0));
    let stream = node.read(follow).await.unwrap();
    gate.open();
    let lines = texts(&all(stream).await.unwrap());
    assert_eq!(lines, ["late"], "a tail of nothing is only what comes");
    assert_eq!(node.stdout(pid).await.unwrap(), ["early", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_of_a_missing_executable_are_not_found() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    refused(node.read(request()).await, Code::NotFound);
    node.allocate("web").await.unwrap();
    refused(node.read(request()).await, Code::NotFound);
    for (change, field) in [
        (("..", "main"), "cell_name"),
        (("", "main"), "cell_name"),
        (("web", ""), "executable_name"),
        (("web", "a/b"), "executable_name"),
    ] {
        let request = ReadLogsRequest {
            cell_name: change.0.into(),
            executable_name: change.1.into(),
            ..Default::default()
        };
        let status = node.read(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(field_of(&status).as_deref(), Some(field));
    }
}
