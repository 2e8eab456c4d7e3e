//! What callers do and what they are refused is written down, who they were
//! and where from, with no secret among it, in a chain that shows whether it
//! was tampered with.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use strata_testkit::serde_json::{self, Value};
use strata_testkit::{Code, Daemon, Https, SmallDisk, holds, refused, wait_for};

use super::{STRATA, TEST_TIMEOUT};

/// The files of the log, one text.
fn written(daemon: &Daemon) -> String {
    let directory = daemon.data_dir().join("audit");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    texts.collect()
}

fn lines(daemon: &Daemon) -> Vec<Value> {
    let text = written(daemon);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Until the node of the daemon itself has connected: its calls are entries too.
async fn connected(daemon: &Daemon) {
    wait_for("its node to connect", TEST_TIMEOUT, async || {
        let calls = lines(daemon);
        let tunnel = |line: &Value| line["call"] == "/schedule.Assignments/Tunnel";
        holds(calls.iter().any(tunnel)).map_err(|_| format!("{calls:#?}"))
    })
    .await;
}

#[track_caller]
fn find<'a>(lines: &'a [Value], call: &str, outcome: &str) -> &'a Value {
    let mut mount_op = lines
        .iter()
        .filter(|line| line["call"] == call && line["outcome"] == outcome);
    mount_op
        .next()
        .unwrap_or_else(|| panic!("no {outcome} {call} in {lines:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_written_with_who_and_where_from() {
    let mut daemon = Daemon::build(STRATA).start().await;
    let cli = daemon.cli_with_endpoints();
    let token = cli
        .run(["token", "create", "--name", "vera", "--role", "viewer"])
        .await;
    let token = token.ok().trim().to_owned();
    let viewer = daemon.node_as("viewer").await;
    refused(viewer.allocate("mine").await, Code::PermissionDenied);
    daemon.node().await.allocate("web").await.unwrap();
    // What its role allows and its handler does not.
    let operator = daemon.node_as("operator").await;
    refused(operator.allocate("host").await, Code::PermissionDenied);

    let all = lines(&daemon);
    let made = find(&all, "/strata.v1.Identity/CreateToken", "allowed");
    assert_eq!(made["role"], "admin", "{made}");
    assert!(
        made["credential"]
            .as_str()
            .unwrap()
            .starts_with("certificate"),
        "{made}"
    );
    assert!(
        made["source"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{made}"
    );
    let denied = find(&all, "/runtime.CellService/Allocate", "denied");
    assert_eq!(denied["principal"], "viewer", "{denied}");
    assert!(
        denied["reason"].as_str().unwrap().contains("operator"),
        "{denied}"
    );
    find(&all, "/runtime.CellService/Allocate", "allowed");
    let by_handler = all
        .iter()
        .rfind(|line| line["outcome"] == "denied")
        .unwrap();
    assert_eq!(by_handler["principal"], "operator", "{by_handler}");
    // Neither secrets nor what is merely looked at.
    assert!(!written(&daemon).contains(&token));
    assert!(
        !all.iter()
            .any(|line| line["call"] == "/strata.v1.Cells/List")
    );

    // It goes on where it was when the daemon was killed.
    let before = all.len();
    daemon.kill();
    daemon.restart().await;
    daemon.node().await.allocate("again").await.unwrap();
    assert!(lines(&daemon).len() > before);
    let verified = daemon.cli_with_endpoints().run(["audit", "verify"]).await;
    let said = verified.ok().trim().to_owned();
    let (_, hash) = said.split_once(' ').unwrap();
    let noted = daemon
        .cli_with_endpoints()
        .run(["audit", "verify", "--noted", hash])
        .await;
    noted.ok();
    let listed = [
        "audit",
        "list",
        "--refused",
        "--principal",
        "viewer",
        "-o",
        "json",
    ];
    let listed = daemon.cli_with_endpoints().run(listed).await;
    assert!(listed.ok().contains("/runtime.CellService/Allocate"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tampering_shows() {
    let daemon = Daemon::build(STRATA).start().await;
    connected(&daemon).await;
    let node = daemon.node().await;
    for i in 0..5 {
        node.allocate(&format!("cell-{i}")).await.unwrap();
    }
    let directory = daemon.data_dir().join("audit");
    let file = fs::read_dir(&directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without_third = [&lines[..2], &lines[3..]].concat().join("\n") + "\n";
    let changed = whole.replacen("\"allowed\"", "\"denied\"", 1);
    for tampered in [without_third, changed] {
        fs::write(&file, tampered).unwrap();
        let verified = daemon.cli_with_endpoints().run(["audit", "verify"]).await;
        assert_eq!(verified.code, Some(6), "{}", verified.stderr);
        assert!(verified.stderr.contains("broken"), "{}", verified.stderr);
    }
    fs::write(&file, &whole).unwrap();
    daemon
        .cli_with_endpoints()
        .run(["audit", "verify"])
        .await
        .ok();
}

/// What is cut off at the end leaves a chain that is whole; the daemon knows
/// where the end was, while it runs and after it was stopped.
#[tokio::test(flavor = "multi_thread")]
async fn cut_log_shows_while_the_daemon_runs_and_after_a_restart() {
    let daemon = Daemon::build(STRATA).start().await;
    connected(&daemon).await;
    let node = daemon.node().await;
    for i in 0..5 {
        node.allocate(&format!("cell-{i}")).await.unwrap();
    }
    let verify = async |daemon: &Daemon| {
        let verified = daemon.cli_with_endpoints().run(["audit", "verify"]).await;
        assert_eq!(verified.code, Some(6), "{}", verified.stderr);
        verified.stderr
    };
    cut(&daemon, 2);
    let said = verify(&daemon).await;
    assert!(said.contains("cut off"), "{said}");
    assert!(said.contains("audit-0"), "the place is named: {said}");
    // The daemon goes on from the line that is missing, and says so.
    node.allocate("after").await.unwrap();
    let said = verify(&daemon).await;
    assert!(said.contains("does not follow"), "{said}");
    let entries = lines(&daemon);
    let found = find(&entries, TAMPERED, "denied");
    assert!(
        found["reason"].as_str().unwrap().contains("bytes"),
        "{found}"
    );
    assert!(daemon.log().contains("audit log was tampered with"));
    drop(node);

    drop(daemon);

    // While no daemon runs, with the head beside it.
    let mut daemon = Daemon::build(STRATA).start().await;
    for i in 0..3 {
        let node = daemon.node().await;
        node.allocate(&format!("cell-{i}")).await.unwrap();
    }
    daemon
        .cli_with_endpoints()
        .run(["audit", "verify"])
        .await
        .ok();
    daemon.terminate().await;
    cut(&daemon, 1);
    daemon.restart().await;
    find(&lines(&daemon), TAMPERED, "denied");
    verify(&daemon).await;
}

/// A log and its head that were cut together: the sealed store knows better.
#[tokio::test(flavor = "multi_thread")]
async fn log_that_was_cut_with_its_head_is_found_by_the_store() {
    let mut daemon = Daemon::build(STRATA).start().await;
    for i in 0..3 {
        let node = daemon.node().await;
        node.allocate(&format!("cell-{i}")).await.unwrap();
    }
    daemon.terminate().await;
    cut(&daemon, 1);
    fs::remove_file(daemon.data_dir().join("audit.head")).unwrap();
    daemon.restart().await;
    let entries = lines(&daemon);
    let found = find(&entries, TAMPERED, "denied");
    assert!(
        found["reason"].as_str().unwrap().contains("ended"),
        "{found}"
    );
    assert!(daemon.log().contains("audit log was tampered with"));
    // All of it gone is no new log either.
    daemon.terminate().await;
    fs::remove_dir_all(daemon.data_dir().join("audit")).unwrap();
    fs::remove_file(daemon.data_dir().join("audit.head")).unwrap();
    daemon.restart().await;
    find(&lines(&daemon), TAMPERED, "denied");
}

/// The call of entries that the log writes about itself.
const TAMPERED: &str = "audit log tampered with";

/// Takes lines off the end of the newest file.
fn cut(daemon: &Daemon, many: usize) {
    let directory = fs::read_dir(daemon.data_dir().join("audit")).unwrap();
    let file = directory.map(|entry| entry.unwrap().path()).max().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let all: Vec<&str> = text.lines().collect();
    assert!(all.len() > many, "{text}");
    let kept = all[..all.len() - many].iter();
    fs::write(
        file,
        kept.map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
}

/// Whoever has no credential cannot push out what others did.
#[tokio::test(flavor = "multi_thread")]
async fn flood_of_refusals_is_counted_not_written() {
    let daemon = Daemon::build(STRATA).start().await;
    let before = lines(&daemon).len();
    let ca = daemon.data_dir().join("client/ca.crt");
    let url = daemon.endpoints().server.unwrap();
    let https = Https::new(&url, &ca, None);
    for _ in 0..300 {
        let answer = https.get("/instance", &[]).unwrap();
        assert!([401, 429].contains(&answer.status), "{}", answer.status);
    }
    let all = lines(&daemon);
    let new = &all[before..];
    assert!(new.len() < 60, "{} lines", new.len());
    let line = find(new, "GET /instance", "unauthenticated");
    assert!(
        line["source"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{line}"
    );
}

/// A file that leaves no block of a disk free.
fn fill(disk: &SmallDisk) -> PathBuf {
    let path = disk.path().join("filling");
    let mut file = fs::File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

/// A full disk keeps no caller out, and what it cost is said.
#[tokio::test(flavor = "multi_thread")]
async fn full_disk_costs_lines_and_no_calls() {
    let disk = SmallDisk::new(4 << 20);
    let mut daemon = Daemon::build(STRATA).stopped();
    fs::create_dir_all(daemon.data_dir()).unwrap();
    std::os::unix::fs::symlink(disk.path(), daemon.data_dir().join("audit")).unwrap();
    daemon.restart().await;
    let node = daemon.node().await;
    node.allocate("before").await.unwrap();
    let filling = fill(&disk);
    for i in 0..30 {
        node.allocate(&format!("full-{i}")).await.unwrap();
    }
    fs::remove_file(filling).unwrap();
    node.allocate("after").await.unwrap();
    daemon
        .cli_with_endpoints()
        .run(["audit", "verify"])
        .await
        .ok();
    let listed = ["audit", "list", "--call", "Allocate", "-o", "json"];
    let listed = daemon.cli_with_endpoints().run(listed).await.json();
    let entries = listed.as_array().unwrap();
    let lost: u64 = entries.iter().filter_map(|one| one["lost"].as_u64()).sum();
    assert!(lost > 0, "{listed:#}");
    assert_eq!(entries.len() as u64 + lost, 32, "{listed:#}");
    assert!(daemon.log().contains("audit log cannot be written"));
}
