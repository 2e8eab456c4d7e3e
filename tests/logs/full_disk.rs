//! A disk without room: what is lost of a log is said at its end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use strata_testkit::observe::LogChannelType::{self, ChannelStderr, ChannelStdout};
use strata_testkit::{Daemon, Node, SmallDisk, all};

use crate::logs::STRATA;

/// The lines of a channel, and how many bytes its gaps say are lost.
async fn lines(node: &Node, channel: LogChannelType, pid: i64) -> (Vec<String>, u64) {
    let items = all(node.stream(channel, pid).await.unwrap()).await.unwrap();
    let (gaps, lines): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| &*item.channel == "strata");
    let lost = gaps.iter().map(|gap| {
        let number = gap.line.split(' ').nth(1).unwrap();
        number.parse::<u64>().unwrap()
    });
    let lost = lost.sum();
    (
        lines.iter().map(|item| item.line.to_string()).collect(),
        lost,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn log_that_the_disk_has_no_room_for_ends_with_a_gap() {
    let disk = SmallDisk::new(8 << 20);
    let daemon = Daemon::build(STRATA).on_disk(&disk.path()).start().await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    let script = "seq 1 1500000";
    let pid = node.start("web", "main", script).await.unwrap();
    assert_eq!(node.wait("web", "main").await.unwrap().exit_code, Some(0));
    let written: u64 = (1..=1_500_000u64)
        .map(|n| n.to_string().len() as u64 + 1)
        .sum();
    let (kept, lost) = lines(&node, ChannelStdout, pid).await;
    assert!(lost > 0, "the disk has 8 MB for {written} bytes");
    let bytes: u64 = kept.iter().map(|line| line.len() as u64 + 1).sum();
    // The last line that is kept may be cut, and has no end then.
    let all = bytes + lost;
    assert!(
        all == written || all == written + 1,
        "{bytes} + {lost} of {written}"
    );
    // By name, as the command line reads it.
    let cli = daemon
        .cli_with_endpoints()
        .run(["logs", "web", "main"])
        .await;
    assert!(cli.stderr.contains("were lost here"), "{}", cli.stderr);
    node.free("web").await.unwrap();
    drop(daemon);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_without_any_room_is_a_gap() {
    let disk = SmallDisk::new(8 << 20);
    let daemon = Daemon::build(STRATA).on_disk(&disk.path()).start().await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    // Where there is room.
    let gate = tempfile::tempdir().unwrap();
    let go = gate.path().join("go");
    let wait = format!("until test -e {}; do sleep 0.05; done", go.display());
    let script = format!("sh -c '{wait}; echo one; echo last words >&2'");
    let pid = node.start("web", "main", &script).await.unwrap();
    disk.fill_but(0);
    std::fs::write(&go, "").unwrap();
    assert_eq!(node.wait("web", "main").await.unwrap().exit_code, Some(0));
    assert_eq!(lines(&node, ChannelStdout, pid).await, (Vec::new(), 4));
    assert_eq!(lines(&node, ChannelStderr, pid).await, (Vec::new(), 11));
    drop(daemon);
    drop(disk);
}
