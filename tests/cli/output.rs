//! The formats: tables for people, everything else for scripts.

use strata_testkit::{Daemon, serde_json};

use crate::cli::STRATA;

async fn world() -> Daemon {
    let (daemon, node) = Daemon::up(STRATA).await;
    for name in ["a", "a/b", "c"] {
        node.allocate(name).await.expect("a cell can be made");
    }
    let started = node.start("a", "main", "sleep 1000").await;
    started.expect("it can be started");
    daemon
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_in_every_format() {
    let daemon = world().await;
    let cli = daemon.cli_with_endpoints();
    let list = |format| cli.run(["cell", "list", "-o", format]);
    assert_eq!(list("name").await.ok(), "cell/a\ncell/a/b\ncell/c\n");
    let json = list("json").await.json();
    let names: Vec<&str> = json
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cell| cell["name"].as_str())
        .collect();
    assert_eq!(names, ["a", "a/b", "c"]);
    assert_eq!(json[0]["state"], "ready");
    assert!(json[0]["usage"]["pids"].as_u64().unwrap() >= 2);
    let yaml = list("yaml").await.ok();
    assert!(yaml.contains("name: a/b"), "{yaml}");
    let table = cli.run(["cell", "list"]).await.ok();
    let wide = list("wide").await.ok();
    for text in [&table, &wide] {
        let mut lines = text.lines();
        let head = lines.next().unwrap();
        assert!(head.starts_with("NAME"), "{text}");
        assert_eq!(lines.count(), 3, "{text}");
        assert!(!text.contains('\u{1b}'), "no colour into a pipe: {text}");
    }
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    assert!(table.lines().next().unwrap().trim_end().ends_with("AGE"));
    assert!(wide.lines().next().unwrap().len() > table.lines().next().unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn top_once_is_one_table_and_done() {
    let daemon = world().await;
    let cli = daemon.cli_with_endpoints();
    let table = cli.run(["top", "--once", "--interval", "100ms"]).await.ok();
    assert!(table.contains("a/b") && table.contains("CPU"), "{table}");
    let words = ["top", "--once", "--interval", "100ms", "-o", "json"];
    let json = cli.run(words).await.json();
    assert_eq!(json["cells"].as_array().unwrap().len(), 3, "{json}");
    let words = [
        "top",
        "--once",
        "--interval",
        "100ms",
        "--under",
        "a",
        "-o",
        "name",
    ];
    let mut names: Vec<String> = cli
        .run(words)
        .await
        .ok()
        .lines()
        .map(str::to_owned)
        .collect();
    names.sort();
    assert_eq!(names, ["cell/a", "cell/a/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoami_knows_every_way_in() {
    let daemon = world().await;
    let who = daemon
        .cli_with_endpoints()
        .run(["whoami", "-o", "json"])
        .await
        .json();
    assert_eq!(who["role"], "admin");
    let server = daemon.endpoints().server.unwrap();
    let token = daemon.data_dir().join("client/token");
    let ca = daemon.data_dir().join("client/ca.crt");
    let words = ["login", "--token-file", token.to_str().unwrap()];
    let cli = daemon.cli();
    cli.clone()
        .env("STRATA_SERVER", server)
        .env("STRATA_CA", ca)
        .run(words)
        .await
        .ok();
    // From now on nothing needs to be said.
    let who = cli.run(["whoami", "-o", "json"]).await.json();
    assert_eq!(
        (&who["role"], &who["proof"]),
        (&"admin".into(), &"token".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_words_on_stderr_whatever_the_format() {
    let daemon = world().await;
    let words = ["cell", "show", "none", "-o", "json"];
    let ran = daemon.cli_with_endpoints().run(words).await.exits(6);
    assert!(ran.stdout.is_empty());
    assert!(ran.stderr.contains("none"), "{}", ran.stderr);
    let empty = ["cell", "list", "--under", "c", "-o", "json"];
    let json = daemon.cli_with_endpoints().run(empty).await.json();
    assert_eq!(json.as_array().map(Vec::len), Some(1));
    let value: serde_json::Value = json[0]["executables"].clone();
    assert_eq!(value, serde_json::json!([]));
}
