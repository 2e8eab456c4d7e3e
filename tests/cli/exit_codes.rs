//! The published exit codes.

use strata_testkit::Daemon;

use crate::cli::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_command_line_is_2() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let cli = daemon.cli_with_endpoints();
    for words in [
        vec!["cell", "allocate"],
        vec!["cell", "allocate", "Bad_Name"],
        vec!["cell", "allocate", "web", "--memory-max", "many"],
        vec!["cell", "start", "web", "main"],
        vec!["cell", "list", "-o", "xml"],
        vec!["no-such-command"],
        vec!["logs"],
    ] {
        let ran = cli.run(words).await.exits(2);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        assert!(!ran.stderr.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_failure_exits_with_3() {
    let (mut daemon, _) = Daemon::up(STRATA).await;
    let cli = daemon.cli_with_endpoints();
    let nowhere = daemon.scratch().display().to_string();
    let words = ["cell", "list", "--data-dir", &nowhere];
    let ran = daemon.cli().run(words).await.exits(3);
    assert!(ran.stderr.contains("strata up"), "a hint: {}", ran.stderr);
    let words = ["cell", "list", "--node", "unix:/nowhere/node.sock"];
    daemon.cli().run(words).await.exits(3);
    daemon.kill();
    let ran = cli.run(["cell", "list"]).await.exits(3);
    assert!(ran.stderr.contains("node.sock"), "{}", ran.stderr);
    daemon.restart().await;
    cli.run(["cell", "list"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn not_allowed_is_5() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let dir = daemon.scratch().join("viewer").display().to_string();
    let words = [
        "certificate",
        "issue",
        "--role",
        "viewer",
        "--name",
        "v",
        "--out",
        &dir,
    ];
    daemon.cli_with_endpoints().run(words).await.ok();
    let viewer = daemon
        .cli()
        .env("STRATA_NODE", daemon.endpoints().node.unwrap())
        .env("STRATA_CREDENTIALS", &dir);
    viewer.run(["cell", "list"]).await.ok();
    let ran = viewer.run(["cell", "allocate", "web"]).await.exits(5);
    assert!(ran.stderr.contains("viewer"), "{}", ran.stderr);
    assert!(ran.stderr.contains("operator"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_is_6() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    let cli = daemon.cli_with_endpoints();
    for words in [
        vec!["cell", "show", "none"],
        vec!["cell", "free", "none", "--yes"],
        vec!["cell", "stop", "web", "none"],
        vec!["cell", "start", "none", "main", "--", "true"],
        vec!["cell", "start", "web", "main", "--", "sleep", "1"],
        vec!["cell", "start", "web", "new", "--", "/no/such/program"],
        vec!["cell", "allocate", "web", "--pids-max", "9"],
        vec!["cell", "allocate", "none/in"],
        vec!["logs", "web", "none"],
        vec!["logs", "none"],
    ] {
        let ran = cli.run(&words).await.exits(6);
        assert!(ran.stdout.is_empty(), "{words:?}: {}", ran.stdout);
        assert!(ran.stderr.contains("cannot"), "{words:?}: {}", ran.stderr);
    }
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_something_that_fails_is_7() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let cli = daemon.cli_with_endpoints();
    let words = [
        "cell", "start", "web", "a", "--wait", "--", "sh", "-c", "exit 3",
    ];
    let ran = cli.run(words).await.exits(7);
    assert!(ran.stderr.contains("exit 3"), "{}", ran.stderr);
    cli.run(["cell", "wait", "web", "a"]).await.exits(7);
    let words = [
        "cell",
        "start",
        "web",
        "b",
        "--follow",
        "--command",
        "sh -c 'echo x; kill -9 $$'",
    ];
    let ran = cli.run(words).await.exits(7);
    assert_eq!(ran.stdout, "x\n");
    assert!(ran.stderr.contains("SIGKILL"), "{}", ran.stderr);
    node.start("web", "long", "sleep 1000").await.unwrap();
    let words = ["cell", "wait", "web", "long", "--timeout", "100ms"];
    cli.run(words).await.exits(7);
    let words = ["cell", "start", "web", "good", "--wait", "--", "true"];
    cli.run(words).await.ok();
}
