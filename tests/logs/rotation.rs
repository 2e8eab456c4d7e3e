//! Rotation with small limits: the disk stays bounded, and what is lost is
//! said.

use std::fs;

use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::{LogLine, ReadLogsRequest};
use strata_testkit::{Daemon, all};

use crate::logs::STRATA;

const LIMITS: &str = "[logs]\nsegment_bytes = 8192\nsegments = 3\n";

fn request(follow: bool) -> ReadLogsRequest {
    ReadLogsRequest {
        cell_name: "web".into(),
        executable_name: "main".into(),
        stdout: true,
        follow,
        ..Default::default()
    }
}

/// Bytes kept and bytes lost, as the lines tell.
fn account(lines: &[LogLine]) -> (u64, u64) {
    let kept: usize = lines.iter().map(|line| line.line.len() + 1).sum();
    let lost = lines.iter().map(|line| line.lost_bytes).sum();
    (kept as u64, lost)
}

/// What `seq 1 n` prints.
fn printed(n: u64) -> u64 {
    (1..=n).map(|i| i.to_string().len() as u64 + 1).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_stays_bounded() {
    let daemon = Daemon::build(STRATA).config(LIMITS).start().await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    let script = "sh -c 'seq 1 200000; seq 1 200000 >&2'";
    node.start("web", "main", script).await.unwrap();
    node.wait("web", "main").await.unwrap();
    let dir = fs::read_dir(daemon.data_dir().join("node/cells/web")).unwrap();
    let is_run = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("run-");
    let mut runs = dir.flatten().filter(|entry| is_run(&entry.file_name()));
    let run = runs.next().expect("it has run").path();
    let sizes = |prefix: &str| -> Vec<u64> {
        let files = fs::read_dir(&run).unwrap().flatten();
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with(prefix))
            .map(|file| file.metadata().unwrap().len())
            .collect()
    };
    for channel in ["stdout.", "stderr."] {
        let sizes = sizes(channel);
        // Three segments and their indexes.
        assert!(sizes.len() <= 6, "{sizes:?}");
        assert!(sizes.iter().sum::<u64>() <= 2 * 3 * 8192, "{sizes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overtaken_log_reader_learns_how_much_it_missed() {
    let daemon = Daemon::build(STRATA).config(LIMITS).start().await;
    let node = daemon.node().await;
    let gate = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'echo begin; {}; seq 1 500000'", gate.wait());
    let pid = node.start("web", "main", &script).await.unwrap();
    let mut by_name = node.read(request(true)).await.unwrap();
    let mut by_pid = node.stream(ChannelStdout, pid).await.unwrap();
    assert_eq!(by_name.message().await.unwrap().unwrap().line, "begin");
    assert_eq!(by_pid.message().await.unwrap().unwrap().line, "begin");
    gate.open();
    node.wait("web", "main").await.unwrap();
    let lines = all(by_name).await.unwrap();
    let (kept, lost) = account(&lines);
    assert!(lost > 0, "three segments do not hold it");
    // A line that a gap cuts in two is shown as two.
    let gaps = lines.iter().filter(|line| line.lost_bytes > 0).count() as u64;
    let all_of_it = printed(500_000)..=printed(500_000) + gaps;
    assert!(all_of_it.contains(&(kept + lost)), "{kept} {lost} {gaps}");
    assert_eq!(lines.last().unwrap().line, "500000");

    let items = all(by_pid).await.unwrap();
    let gaps: Vec<&str> = items
        .iter()
        .filter(|item| item.channel == "strata")
        .map(|item| &*item.line)
        .collect();
    assert!(!gaps.is_empty(), "a gap is said, not hidden");
    assert!(gaps.iter().all(|gap| gap.starts_with("gap: ")), "{gaps:?}");
    assert_eq!(items.last().unwrap().line, "500000");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_log_reader_learns_what_was_rotated_away() {
    let daemon = Daemon::build(STRATA).config(LIMITS).start().await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "seq 1 100000").await.unwrap();
    node.wait("web", "main").await.unwrap();
    let lines = all(node.read(request(false)).await.unwrap()).await.unwrap();
    let (kept, lost) = account(&lines);
    assert!(kept <= 3 * 8192, "{kept}");
    assert_eq!(kept + lost, printed(100_000));
    // A tail asks for less than there is: nothing of it is missing.
    let tail = ReadLogsRequest {
        tail: Some(10),
        ..request(false)
    };
    let lines = all(node.read(tail).await.unwrap()).await.unwrap();
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[0].line, "99991");
    assert_eq!(lines.iter().map(|line| line.lost_bytes).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_no_sense_are_refused() {
    let daemon = Daemon::build(STRATA).start().await;
    let file = daemon.scratch().join("config.toml");
    for text in [
        "[logs]\nsegments = -1",
        "[logs]\nsegment = 2",
        "[logs",
        "[logs]\nsegments = 'x'",
    ] {
        fs::write(&file, text).unwrap();
        let other = daemon.scratch().join("other");
        let ran = daemon
            .cli()
            .run([
                "up",
                "--data-dir",
                other.to_str().unwrap(),
                "--config",
                file.to_str().unwrap(),
            ])
            .await
            .exits(2);
        assert!(ran.stderr.contains("config.toml"), "{}", ran.stderr);
        assert!(!other.exists(), "nothing was made");
    }
}
