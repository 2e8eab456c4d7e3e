//! What a caller runs is written down with how it ended, whatever the caller
//! makes of the command line, and however the session is cut short.

use std::fs;
use std::path::Path;

use strata_testkit::cluster::Cluster;
use strata_testkit::pods::shell;
use strata_testkit::serde_json::{self, Value, json};
use strata_testkit::v1::{ExecInput, ExecStart, exec_input};
use strata_testkit::{Daemon, wait_for};

use super::project_world::{Caller, project, run, script};
use super::{STRATA, TEST_TIMEOUT};

/// The lines of sessions, of this outcome.
fn sessions(daemon: &Daemon, outcome: &str) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(daemon.data_dir().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let text: String = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let lines = text.lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["outcome"] == outcome && line["session"].is_object())
        .collect()
}

/// The end of the session that ran a command with this in it.
async fn end_of(daemon: &Daemon, marker: &str) -> (Value, Value) {
    wait_for(
        "the end of the session in the log",
        TEST_TIMEOUT,
        async || {
            let ran = |line: &&Value| line["session"]["command"].to_string().contains(marker);
            let started = sessions(daemon, "started");
            let start = started
                .iter()
                .rfind(ran)
                .ok_or_else(|| "no start".to_owned())?;
            let of = |line: &&Value| line["session"]["id"] == start["session"]["id"];
            let ended = sessions(daemon, "ended");
            let end = ended.iter().find(of).ok_or_else(|| "no end".to_owned())?;
            Ok((start.clone(), end.clone()))
        },
    )
    .await
}

async fn verify(daemon: &Daemon) {
    daemon
        .cli_with_endpoints()
        .run(["audit", "verify"])
        .await
        .ok();
}

fn asked(command: &[&str]) -> Value {
    json!({ "command": command, "environment": ["PASSWORD=hunter2"], "stdin": "s3cret" })
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_through_the_server_is_written_there_and_on_the_node() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    run(&cluster, script(&cluster, "shop", "plain", "sleep 1000")).await;
    let caller = Caller::new(&cluster, "operator", &["shop"]).await;
    let path = "/instance/id-plain/exec";
    let sh = |text| asked(&["/bin/busybox", "sh", "-c", text]);
    let exit = caller.call("POST", path, sh("cat; exit 3")).await;
    assert_eq!(exit.status, 200, "{exit:?}");
    let killed = caller.call("POST", path, sh("kill -9 $$ # killed")).await;
    assert_eq!(killed.status, 200, "{killed:?}");
    let node = &cluster.nodes[0].daemon;
    for daemon in [&cluster.server, node] {
        let (start, end) = end_of(daemon, "exit 3").await;
        assert_eq!(start["principal"], "operator", "{start}");
        assert_eq!(start["session"]["project"], "shop", "{start}");
        assert_eq!(start["session"]["kind"], "exec", "{start}");
        assert_eq!(end["session"]["exitCode"], 3, "{end}");
        assert_eq!(end["session"]["bytesIn"], 6, "{end}");
        assert_eq!(end["session"]["bytesOut"], 6, "{end}");
        assert!(end["session"]["durationMs"].is_u64(), "{end}");
        let (_, end) = end_of(daemon, "# killed").await;
        assert_eq!(end["session"]["signal"], 9, "{end}");
        assert_eq!(end["session"].get("exitCode"), None, "{end}");
        let text = format!("{:?}", sessions(daemon, "started"));
        assert!(!text.contains("hunter2") && !text.contains("s3cret"));
        verify(daemon).await;
    }
    let (start, _) = end_of(&cluster.server, "exit 3").await;
    let credential = start["credential"].as_str().unwrap();
    assert!(credential.starts_with("token"), "{start}");
    assert!(start["source"].is_string(), "{start}");
    assert_eq!(start["projects"], json!(["shop"]), "{start}");

    // By a certificate, and a caller that vanishes in the middle.
    let dir = cluster.credentials("operator", "olga").await;
    let client = cluster.client_with(&dir).await.unwrap();
    let start = ExecInput {
        input: Some(exec_input::Input::Start(shell("id-plain", "sleep 999"))),
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(start).await.unwrap();
    let input = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut output = client.instances().exec(input).await.unwrap().into_inner();
    output.message().await.unwrap();
    drop((output, sender, client));
    let (start, end) = end_of(&cluster.server, "sleep 999").await;
    assert_eq!(start["principal"], "olga", "{start}");
    let credential = start["credential"].as_str().unwrap();
    assert!(credential.starts_with("certificate"), "{start}");
    assert_eq!(end["reason"], "the caller left", "{end}");
    let (_, end) = end_of(node, "sleep 999").await;
    assert_eq!(end["reason"], "the caller left", "{end}");
    assert!(end["session"]["signal"].is_i64(), "{end}");

    read_by_rest(&cluster, &caller).await;
}

/// Admins read the log by REST, others do not, and the reading is in the log.
async fn read_by_rest(cluster: &Cluster, other: &Caller) {
    let rest = cluster.rest();
    let all = rest.get("/audit?sessions=true&principal=olga").await;
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 2, "{all:#?}");
    let page = rest.get("/audit?limit=3&offset=1").await;
    let numbers: Vec<_> = page
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["number"])
        .collect();
    assert_eq!(numbers, [2, 3, 4], "{page}");
    let last = rest.get("/audit?tail=1").await;
    assert_eq!(last[0]["call"], "GET /audit", "{last}");
    let number = last[0]["number"].as_u64().unwrap();
    let after = rest.get(&format!("/audit?after={number}")).await;
    assert_eq!(after.as_array().unwrap().len(), 1, "{after}");
    let refused = other.call("GET", "/audit", Value::Null).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let bad = rest.call("GET", "/audit?limit=0", Value::Null).await;
    assert_eq!(bad.status, 422, "{bad:?}");
    let listed = ["audit", "list", "--remote", "--sessions", "-o", "json"];
    let listed = cluster.cli().run(listed).await.json();
    assert!(listed.to_string().contains("sleep 999"), "{listed:#}");
}

/// A node whose daemon is killed in the middle has the start alone, and the
/// chain goes on.
#[tokio::test(flavor = "multi_thread")]
async fn killed_daemon_leaves_a_start_without_an_end() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let image = strata_testkit::cluster::scripted(&daemon.scratch());
    let pod = strata_testkit::pods::idle("web", &image);
    node.run_pod(pod).await.unwrap();
    let mut open = node
        .open(shell("web", "echo here; sleep 998"))
        .await
        .unwrap();
    open.until("here").await;
    daemon.kill();
    drop(open);
    daemon.restart().await;
    let node = daemon.node().await;
    node.sh("web", "exit 4").await.unwrap();
    let (_, end) = end_of(&daemon, "exit 4").await;
    assert_eq!(end["session"]["exitCode"], 4, "{end}");
    let ended = sessions(&daemon, "ended");
    let started = sessions(&daemon, "started");
    assert_eq!(
        (started.len(), ended.len()),
        (2, 1),
        "{started:#?} {ended:#?}"
    );
    verify(&daemon).await;

    // An executable of a cell.
    node.allocate("cell").await.unwrap();
    node.start("cell", "seven", "sh -c 'exit 7'").await.unwrap();
    let (start, end) = end_of(&daemon, "exit 7").await;
    assert_eq!(start["session"]["object"], "cell/cell/seven", "{start}");
    assert_eq!(start["session"]["kind"], "executable", "{start}");
    assert_eq!(end["session"]["exitCode"], 7, "{end}");
    hostile_commands(&daemon, &node).await;
}

async fn hostile_commands(daemon: &Daemon, node: &strata_testkit::Node) {
    let line = "\n{\"number\":99999,\"outcome\":\"allowed\"}\n\"}\r\n";
    let escapes = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let long = "x".repeat(60 << 10);
    for (number, word) in [line, escapes, &long, "\\\"'$(reboot)"].iter().enumerate() {
        let marker = format!("hostile-{number}");
        let start = ExecStart {
            pod: "web".into(),
            command: vec![
                "/bin/busybox".into(),
                "true".into(),
                marker.clone(),
                word.to_string(),
            ],
            ..ExecStart::default()
        };
        // Whether it runs or not.
        let _ = node.exec(start).await;
        let (start, _) = end_of(daemon, &marker).await;
        let command = start["session"]["command"].as_array().unwrap();
        let told: String = command[3].as_str().unwrap().into();
        assert!(word.starts_with(&told) && told.len() <= 4096, "{start}");
        assert_eq!(start["session"].get("truncated").is_some(), told != *word);
    }
    // Larger than any request may be: refused before it is anybody's command.
    let huge = ExecStart {
        pod: "web".into(),
        command: vec!["/bin/true".into(), "y".repeat(1 << 20)],
        ..ExecStart::default()
    };
    node.exec(huge).await.unwrap_err();
    assert!(line_lengths(&daemon.data_dir().join("audit")) < 64 << 10);
    verify(daemon).await;
    for words in [&["audit", "list"][..], &["audit", "list", "-o", "wide"]] {
        let shown = daemon
            .cli_with_endpoints()
            .run(words.iter().copied())
            .await
            .ok();
        let bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!shown.contains(bad), "{shown:?}");
        assert!(shown.contains("exec pod/web"), "{shown}");
        let begins = |line: &str| line.starts_with(|c: char| c.is_ascii_digit());
        assert!(shown.lines().skip(1).all(begins), "{shown}");
    }
}

fn line_lengths(directory: &Path) -> usize {
    let files = fs::read_dir(directory).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let longest = texts.map(|text| text.lines().map(str::len).max().unwrap_or(0));
    longest.max().unwrap_or(0)
}
