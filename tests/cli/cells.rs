//! `strata cell` and `strata logs` from the first to the last.

use std::io::Read as _;
use std::process::Stdio;

use strata_testkit::{Daemon, TEST_TIMEOUT, holds, wait_for};

use crate::cli::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_cell() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let cli = daemon.cli_with_endpoints();
    let words = [
        "cell",
        "allocate",
        "web",
        "--cpus",
        "0.5",
        "--memory-max",
        "64MiB",
        "--pids-max",
        "40",
        "--cpu-shares",
        "512",
    ];
    let ran = cli.run(words).await.exits(0);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("web"),
        "{ran:?}"
    );
    let shown = cli.run(["cell", "show", "web", "-o", "json"]).await.json();
    assert_eq!(shown["name"], "web");
    assert_eq!(shown["cpu_shares"], 512);
    cli.run([
        "cell",
        "start",
        "web",
        "main",
        "--",
        "sh",
        "-c",
        "echo hi; sleep 1000",
    ])
    .await
    .ok();
    assert!(node.is_running("web", "main").await);
    wait_for("it to have spoken", TEST_TIMEOUT, async || {
        let logs = cli.run(["logs", "web", "main"]).await.ok();
        holds(logs == "hi\n")
    })
    .await;
    let listed = cli.run(["cell", "list"]).await.ok();
    assert!(listed.starts_with("NAME"), "{listed}");
    assert!(listed.contains("web"), "{listed}");
    let show = cli.run(["cell", "show", "web"]).await.ok();
    assert!(show.contains("main"), "{show}");
    cli.run(["cell", "stop", "web", "main"]).await.ok();
    assert!(!node.is_running("web", "main").await);
    cli.run(["cell", "free", "web", "--yes"]).await.ok();
    assert!(node.names().await.is_empty());
    cli.run(["cell", "free", "web", "--yes"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_runs_change_nothing() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let cli = daemon.cli_with_endpoints();
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    for words in [
        vec!["cell", "allocate", "new", "--dry-run"],
        vec!["cell", "start", "web", "more", "--dry-run", "--", "true"],
        vec!["cell", "stop", "web", "main", "--dry-run"],
        vec!["cell", "free", "web", "--dry-run"],
    ] {
        let said = cli.run(&words).await.ok();
        assert!(said.contains("would"), "{words:?}: {said}");
    }
    assert_eq!(node.names().await, ["web"]);
    assert!(node.is_running("web", "main").await);
    assert_eq!(node.get("web").await.unwrap().executables.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn shown_cell_spec_can_be_allocated_again() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let cli = daemon.cli_with_endpoints();
    let words = [
        "cell",
        "allocate",
        "web",
        "--cpus",
        "1.5",
        "--memory-max",
        "64MiB",
        "--root",
        "private",
        "--network",
        "isolated",
    ];
    cli.run(words).await.ok();
    let before = node.get("web").await.unwrap();
    let yaml = cli.run(["cell", "show", "web", "-o", "yaml"]).await.ok();
    let file = daemon.scratch().join("web.yaml");
    std::fs::write(&file, yaml).unwrap();
    cli.run(["cell", "free", "web", "--yes"]).await.ok();
    cli.run(["cell", "allocate", "-f", file.to_str().unwrap()])
        .await
        .ok();
    let after = node.get("web").await.unwrap();
    assert_eq!(after.options, before.options);
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_prints_what_is_written_where_it_was_written() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    let words = [
        "cell", "start", "web", "main", "--follow", "--", "sh", "-c", script,
    ];
    let ran = daemon.cli_with_endpoints().run(words).await.exits(0);
    assert_eq!(ran.stdout, "out 1\nout 2\nout 3\n");
    assert!(
        ran.stderr.contains("err 1\nerr 2\nerr 3\n"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_can_be_cut_short_by_a_pipe() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sh -c 'seq 1 200000; sleep 1000'")
        .await
        .unwrap();
    // The first waits for what is written, the second finds it.
    for follow in ["-f", ""] {
        let script =
            format!("{STRATA} logs web main {follow} | head -n 3; echo ${{PIPESTATUS[0]}}");
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .env("STRATA_DATA_DIR", daemon.data_dir())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["1", "2", "3"]);
        assert!(["0", "141"].contains(&lines[3]), "{lines:?}");
        assert!(
            output.stderr.is_empty(),
            "{:?}",
            String::from_utf8(output.stderr)
        );
    }
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_follow_until_the_end_and_know_tails_and_channels() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let (cli, gate) = (daemon.cli_with_endpoints(), daemon.gate("go"));
    node.allocate("web").await.unwrap();
    let script = format!("sh -c 'seq 1 10; echo oops >&2; {}; echo end'", gate.wait());
    node.start("web", "main", &script).await.unwrap();
    let mut following = cli
        .command(["logs", "web", "main", "-f", "--stdout"])
        .spawn()
        .unwrap();
    let mut begin = [0; 2];
    following
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut begin)
        .unwrap();
    assert_eq!(&begin, b"1\n");
    gate.open();
    let output = following.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"2\n3\n4\n5\n6\n7\n8\n9\n10\nend\n");
    let tail = cli
        .run(["logs", "web", "main", "--stdout", "--tail", "2"])
        .await;
    assert_eq!(tail.ok(), "10\nend\n");
    let errors = cli.run(["logs", "web", "main", "--stderr"]).await.exits(0);
    assert_eq!(
        (errors.stdout.as_str(), errors.stderr.as_str()),
        ("", "oops\n")
    );
    let since = cli
        .run(["logs", "web", "main", "--stdout", "--since", "10m"])
        .await;
    assert_eq!(since.ok().lines().count(), 11);
    let daemons = cli.run(["logs", "--daemon"]).await.ok();
    assert!(daemons.contains("allocated"), "{daemons}");
}
