//! Commands about the machine and the binary itself.

use std::process::Command;

use strata_testkit::Daemon;

use crate::cli::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_this_machine_good_enough() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let text = daemon.cli_with_endpoints().run(["doctor"]).await.ok();
    assert!(text.to_lowercase().contains("cgroup"), "{text}");
    let json = daemon
        .cli_with_endpoints()
        .run(["doctor", "-o", "json"])
        .await
        .json();
    let findings = json.as_array().unwrap();
    assert!(findings.len() > 3, "{json}");
    assert!(findings.iter().all(|f| f["level"].is_string()), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn version_needs_no_daemon() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let text = daemon.cli().run(["version"]).await.ok();
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    let json = daemon.cli().run(["version", "-o", "json"]).await.json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["commit"].is_string(), "{json}");
    let flag = daemon.cli().run(["--version"]).await.ok();
    assert!(flag.contains(env!("CARGO_PKG_VERSION")), "{flag}");
    daemon.cli().run(["--help"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_completion_script_completes_names_of_live_cells() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("webshop").await.unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = daemon.cli().run(["completion", shell]).await.ok();
        assert!(script.contains("strata"), "{script}");
    }
    let dir = std::path::Path::new(STRATA).parent().unwrap();
    // What happens in bash when a person types `strata cell show web`, Tab.
    let script = "source <(strata completion bash); \
                  COMP_WORDS=(strata cell show web); COMP_CWORD=3; COMP_TYPE=9; \
                  function=$(complete -p strata | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
                  $function strata web show; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", script])
        .env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
        .env("STRATA_DATA_DIR", daemon.data_dir())
        .output()
        .unwrap();
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(offered.trim(), "webshop", "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn down_tells_first_what_it_would_remove() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    let said = daemon
        .cli_with_endpoints()
        .run(["down", "--dry-run"])
        .await
        .ok();
    assert!(said.contains(&daemon.pid().to_string()), "{said}");
    assert!(said.contains("web"), "{said}");
    assert!(node.is_running("web", "main").await);
    let said = daemon
        .cli_with_endpoints()
        .run(["down", "--dry-run", "--purge"])
        .await;
    assert!(said.ok().contains(&daemon.data_dir().display().to_string()));
    assert!(daemon.data_dir().join("client/client.key").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn down_of_a_directory_where_nothing_ran_is_refused() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let dir = daemon.scratch().display().to_string();
    let words = ["down", "--yes", "--purge", "--data-dir", &dir];
    let ran = daemon.cli().run(words).await.exits(6);
    assert!(ran.stderr.contains(&dir), "{}", ran.stderr);
    assert!(
        daemon.scratch().exists(),
        "a directory of somebody else's stays"
    );
}
