//! `observe.Observe`.

use std::time::{SystemTime, UNIX_EPOCH};

use strata_testkit::observe::LogChannelType::{ChannelStderr, ChannelStdout};
use strata_testkit::observe::{
    GetAuraeDaemonLogStreamRequest, GetSubProcessStreamRequest, LogItem,
};
use strata_testkit::{Code, Daemon, Node, Streaming, all, field_of, refused};

use crate::logs::STRATA;

async fn daemon_log(node: &Node) -> Streaming<LogItem> {
    let request = GetAuraeDaemonLogStreamRequest {};
    let mut observe = node.client().observe();
    let answer = observe.get_aurae_daemon_log_stream(request).await;
    answer.expect("the log can be read").into_inner()
}

/// Reads on until a line holds all of these words.
async fn find(log: &mut Streaming<LogItem>, words: &[&str]) -> LogItem {
    loop {
        let item = log.message().await.expect("the log goes on");
        let item = item.expect("the log does not end");
        if words.iter().all(|word| item.line.contains(word)) {
            return item;
        }
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.expect("it is after 1970").as_secs()).expect("it is before 2554")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemons_log_has_a_history_and_then_goes_on() {
    let begin = now();
    let (daemon, node) = Daemon::up(STRATA).await;
    let mut log = daemon_log(&node).await;
    let pid = format!("pid={}", daemon.pid());
    let first = find(&mut log, &["starting", &pid]).await;
    assert_eq!(first.channel, "daemon");
    assert!((begin..=now()).contains(&first.timestamp), "{first:?}");
    node.allocate("fresh").await.unwrap();
    let live = find(&mut log, &["allocated", "fresh"]).await;
    assert!(live.timestamp >= first.timestamp);
    // Another reader finds all of it as history.
    let mut again = daemon_log(&node).await;
    find(&mut again, &["starting", &pid]).await;
    find(&mut again, &["allocated", "fresh"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemons_log_survives_the_daemon() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let first = format!("pid={}", daemon.pid());
    node.allocate("web").await.unwrap();
    daemon.kill();
    daemon.restart().await;
    let second = format!("pid={}", daemon.pid());
    let mut log = daemon_log(&daemon.node().await).await;
    find(&mut log, &["starting", &first]).await;
    find(&mut log, &["starting", &second]).await;
    find(&mut log, &["cell recovered", "web"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_comes_first_and_then_what_is_written_until_the_end() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let (gate, begin) = (daemon.gate("go"), now());
    node.allocate("web").await.unwrap();
    let script = format!(
        "sh -c 'echo one; echo two; {}; echo three; printf four'",
        gate.wait()
    );
    let pid = node.start("web", "main", &script).await.unwrap();
    let mut stream = node.stream(ChannelStdout, pid).await.unwrap();
    for wanted in ["one", "two"] {
        let item = stream.message().await.unwrap().unwrap();
        assert_eq!((&*item.line, &*item.channel), (wanted, "stdout"));
        assert!((begin..=now()).contains(&item.timestamp), "{item:?}");
    }
    gate.open();
    let rest: Vec<String> = all(stream)
        .await
        .unwrap()
        .into_iter()
        .map(|item| item.line.to_string())
        .collect();
    assert_eq!(rest, ["three", "four"], "a last line without an end counts");
    // Later readers get the same, from the files.
    for _ in 0..2 {
        assert_eq!(
            node.stdout(pid).await.unwrap(),
            ["one", "two", "three", "four"]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_channels_are_kept_apart() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'for i in 1 2 3; do echo out$i; echo err$i >&2; done'";
    let pid = node.start("web", "main", script).await.unwrap();
    for (channel, name, prefix) in [
        (ChannelStdout, "stdout", "out"),
        (ChannelStderr, "stderr", "err"),
    ] {
        let items = all(node.stream(channel, pid).await.unwrap()).await.unwrap();
        let lines: Vec<&str> = items.iter().map(|item| &*item.line).collect();
        let wanted = [1, 2, 3].map(|i| format!("{prefix}{i}"));
        assert_eq!(lines, wanted);
        assert!(items.iter().all(|item| &*item.channel == name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_in_nested_cells_are_known_by_the_pid_the_node_sees() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    for name in ["a", "a/b", "a/b/c"] {
        node.allocate(name).await.unwrap();
        let script = format!("sh -c 'echo {name}; {}; echo $$'", gate.wait());
        node.start(name, "main", &script).await.unwrap();
    }
    gate.open();
    for name in ["a", "a/b", "a/b/c"] {
        let pid = node.executable(name, "main").await.unwrap().process_id;
        let lines = node.stdout(pid).await.unwrap();
        assert_eq!(lines[0], name);
        assert_ne!(lines[1], pid.to_string(), "inside it is another number");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_of_a_name_keeps_its_own_log() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let mut pids = Vec::new();
    for word in ["first", "second", "third"] {
        let command = format!("echo {word}");
        pids.push((node.start("web", "job", &command).await.unwrap(), word));
        node.wait("web", "job").await.unwrap();
    }
    for (pid, word) in pids {
        assert_eq!(node.stdout(pid).await.unwrap(), [word]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_executable_has_an_empty_log() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c '{}'", gate.wait());
    let pid = node.start("web", "main", &script).await.unwrap();
    let out = node.stream(ChannelStdout, pid).await.unwrap();
    let err = node.stream(ChannelStderr, pid).await.unwrap();
    gate.open();
    assert!(all(out).await.unwrap().is_empty());
    assert!(all(err).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn pids_and_channels_that_are_none_are_refused() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    for unknown in [1, i64::from(daemon.pid()), i64::MAX] {
        let answer = node.stream(ChannelStdout, unknown).await;
        let words = refused(answer, Code::NotFound);
        assert!(words.contains(&unknown.to_string()), "{words}");
    }
    for (channel_type, process_id, field) in [
        (2, pid, "channel_type"),
        (-1, pid, "channel_type"),
        (0, 0, "process_id"),
        (0, -1, "process_id"),
        (0, i64::MIN, "process_id"),
    ] {
        let request = GetSubProcessStreamRequest {
            channel_type,
            process_id,
        };
        let mut observe = node.client().observe();
        let status = observe.get_sub_process_stream(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(field_of(&status).as_deref(), Some(field));
    }
}
