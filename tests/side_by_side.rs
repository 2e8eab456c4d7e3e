//! Two runs on one machine, and two daemons that want the same directory.

use std::path::Path;

use strata_testkit::Daemon;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_know_nothing_of_each_other() {
    let (one, first) = Daemon::up(STRATA).await;
    let (two, second) = Daemon::up(STRATA).await;
    for (node, seconds) in [(&first, "8001"), (&second, "8002")] {
        node.allocate("web").await.unwrap();
        let command = format!("sleep {seconds}");
        node.start("web", "main", &command).await.unwrap();
    }
    let (a, b) = (one.host().settled().await, two.host().settled().await);
    assert!(a.processes.keys().all(|pid| !b.processes.contains_key(pid)));
    assert!(a.cgroups.is_disjoint(&b.cgroups));
    let before = second.get("web").await.unwrap().init_pid;
    drop(first);
    drop(one);
    // `strata down` of one, which is how it went, left the other alone.
    assert_eq!(second.get("web").await.unwrap().init_pid, before);
    assert!(second.is_running("web", "main").await);
    assert_eq!(two.host().look(), b);
    second.allocate("more").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_daemon_on_the_same_data_directory_is_refused() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let dir = daemon.data_dir().display().to_string();
    for role in ["up", "node", "server"] {
        let ran = daemon.cli().run([role, "--data-dir", &dir]).await;
        let ran = ran.exits(6);
        let pid = daemon.pid().to_string();
        assert!(ran.stderr.contains(&dir), "{}", ran.stderr);
        assert!(ran.stderr.contains(&pid), "{}", ran.stderr);
        assert!(!ran.stdout.contains("ready"), "{}", ran.stdout);
    }
    // The one that is there has not noticed.
    assert_eq!(node.names().await, ["web"]);
    assert_eq!(daemon.node().await.names().await, ["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_line_says_where_to_go() {
    let up = Daemon::build(STRATA).start().await;
    let url = up.endpoints().server.unwrap();
    assert_eq!(up.ready(), format!("ready {url}"));
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    assert_ne!(port, 0, "the real port is told");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");

    let node = Daemon::build(STRATA).role("node").start().await;
    let socket = node.data_dir().join("node.sock");
    assert_eq!(node.ready(), format!("ready unix:{}", socket.display()));
    node.node().await.allocate("web").await.unwrap();

    let server = Daemon::build(STRATA).role("server").start().await;
    let url = server.endpoints().server.unwrap();
    assert_eq!(server.ready(), format!("ready {url}"));
    assert!(server.endpoints().node_socket.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_in_the_data_directory_by_default() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let inside = daemon.data_dir().join("node.sock");
    assert_eq!(daemon.endpoints().node_socket.unwrap(), inside);
    assert!(inside.exists());

    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("here.sock");
    let other = Daemon::build(STRATA)
        .arg("--node-socket")
        .arg(told.display().to_string())
        .start()
        .await;
    assert_eq!(other.endpoints().node_socket.unwrap(), told);
    assert!(!other.data_dir().join("node.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_or_socket_is_named() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let endpoints = daemon.endpoints();
    let taken = endpoints.server.unwrap();
    let taken = taken.trim_start_matches("https://");
    let dir = daemon.scratch().join("other").display().to_string();
    let words = ["server", "--data-dir", &dir, "--listen", taken];
    let ran = daemon.cli().run(words).await.exits(2);
    assert!(ran.stderr.contains(taken), "{}", ran.stderr);
    assert!(ran.stderr.contains("--listen"), "{}", ran.stderr);
    let socket = endpoints.node_socket.unwrap().display().to_string();
    let words = [
        "node",
        "--data-dir",
        &dir,
        "--node-listen",
        "127.0.0.1:0",
        "--node-socket",
        &socket,
    ];
    let ran = daemon.cli().run(words).await.exits(6);
    assert!(ran.stderr.contains(&socket), "{}", ran.stderr);
    // Whoever was there first still answers.
    assert!(daemon.node().await.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn down_removes_the_run_with_or_without_its_daemon() {
    for killed in [false, true] {
        let (mut daemon, node) = Daemon::up(STRATA).await;
        node.allocate("web").await.unwrap();
        node.allocate("web/in").await.unwrap();
        node.start("web/in", "main", "sh -c 'setsid sleep 1000 & sleep 1000'")
            .await
            .unwrap();
        if killed {
            daemon.kill();
        }
        let host = daemon.host();
        let dir = daemon.data_dir().display().to_string();
        let words = ["down", "--yes", "--data-dir", &dir];
        daemon.cli().run(words).await.ok();
        let left = host.look();
        let only_a_corpse = left.processes.is_empty() && left.cgroups.is_empty();
        assert!(only_a_corpse && left.mounts.is_empty(), "{left:#?}");
        assert!(!Path::new(&dir).join("node.sock").exists());
        assert!(!Path::new(&dir).join("node/cells/web").exists());
        // Identities stay; twice is fine; and it can be started again.
        assert!(Path::new(&dir).join("client/client.key").exists());
        daemon.cli().run(words).await.ok();
        if !killed {
            daemon.kill();
        }
        daemon.restart().await;
        assert!(daemon.node().await.names().await.is_empty());
        let purge = ["down", "--yes", "--purge", "--data-dir", &dir];
        daemon.cli().run(purge).await.ok();
        assert!(!Path::new(&dir).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn down_ends_a_server_that_has_no_node() {
    let server = Daemon::build(STRATA).role("server").start().await;
    let dir = server.data_dir().display().to_string();
    let words = ["down", "--yes", "--data-dir", &dir];
    server.cli().run(words).await.ok();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    assert!(stat.contains(") Z "), "the server has ended: {stat}");
}

#[tokio::test(flavor = "multi_thread")]
async fn down_takes_the_socket_along_wherever_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("here.sock");
    let mut daemon = Daemon::build(STRATA)
        .arg("--node-socket")
        .arg(socket.display().to_string())
        .start()
        .await;
    daemon.kill();
    assert!(socket.exists(), "a killed daemon leaves its socket");
    let data_dir = daemon.data_dir().display().to_string();
    let words = ["down", "--yes", "--data-dir", &data_dir];
    daemon.cli().run(words).await.ok();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_socket_path_is_reported_and_another_socket_works() {
    let (daemon, _) = Daemon::up(STRATA).await;
    let deep = daemon.scratch().join("d".repeat(120));
    let dir = deep.display().to_string();
    let ports = ["--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"];
    let up = ["up", "--data-dir", &dir];
    let ran = daemon.cli().run(up.iter().chain(&ports)).await.exits(6);
    assert!(
        ran.stderr.contains("too long for a socket"),
        "{}",
        ran.stderr
    );

    let socket = daemon.scratch().join("deep.sock").display().to_string();
    let elsewhere = ["--node-socket", &socket];
    let words = up.iter().chain(&ports).chain(&elsewhere);
    let mut child = daemon.cli().command(words).spawn().unwrap();
    let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let ready = std::io::BufRead::lines(stdout).next();
    let words = ["cell", "allocate", "web", "--data-dir", &dir];
    let allocated = daemon.cli().run(words).await;
    let words = ["down", "--yes", "--data-dir", &dir];
    let down = daemon.cli().run(words).await;
    child.kill().unwrap();
    let log = child.wait_with_output().unwrap().stderr;
    assert!(ready.is_some(), "{}", String::from_utf8_lossy(&log));
    allocated.ok();
    down.ok();
}
