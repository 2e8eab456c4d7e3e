//! Many cells, many clients, and clients that vanish: afterwards the machine
//! is as it was, looked up on the machine.

use std::time::Duration;

use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::{CellState, WatchCellsRequest};
use strata_testkit::{Daemon, Node, TEST_TIMEOUT, same, wait_for};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// Waits until the daemon holds no more files and watches than before.
async fn settled(daemon: &Daemon, files: usize, watches: usize) {
    wait_for("the daemon to let go of files", TEST_TIMEOUT, async || {
        let now = daemon.open_files();
        same(now <= files, &true).map_err(|_| {
            format!(
                "{now} are open, {files} were: {:#?}",
                daemon.open_file_names()
            )
        })
    })
    .await;
    wait_for("the daemon to watch no more", TEST_TIMEOUT, async || {
        same(daemon.watches(), &watches)
    })
    .await;
}

/// The life of one cell.
async fn live(node: Node, name: String) {
    let nested = format!("{name}/in");
    node.allocate(&name).await.expect("a cell can be made");
    let pid = node
        .start(&name, "main", "sh -c 'sleep 1000 & echo up; wait'")
        .await
        .expect("it can be started");
    if name.ends_with('0') {
        node.allocate(&nested).await.expect("one inside too");
        let started = node.start(&nested, "main", "sleep 1000").await;
        started.expect("and something in that");
        let mut lines = node.stream(ChannelStdout, pid).await.expect("it is heard");
        let line = lines.message().await.expect("it speaks").expect("a line");
        assert_eq!(&*line.line, "up");
    }
    node.stop(&name, "main").await.expect("it can be stopped");
    node.free(&name).await.expect("the cell can be freed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cells_leave_no_trace() {
    let (daemon, node) = Daemon::up(STRATA).await;
    // What is made once and stays: the shim, the run's own groups.
    node.allocate("warm").await.unwrap();
    node.shell("warm", "main", "echo up").await;
    let (before, files, watches) = (
        daemon.host().settled().await,
        daemon.open_files(),
        daemon.watches(),
    );
    for wave in 0..10 {
        let mut cells = JoinSet::new();
        for i in 0..100 {
            cells.spawn(live(node.clone(), format!("c-{wave}-{i}")));
        }
        cells.join_all().await;
    }
    assert_eq!(node.names().await, ["warm"]);
    daemon.host().returns_to(&before).await;
    settled(&daemon, files, watches).await;
    let cells = daemon.data_dir().join("node/cells");
    assert_eq!(std::fs::read_dir(cells).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_hundred_cells_are_there_at_once() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let (before, files, watches) = (
        daemon.host().settled().await,
        daemon.open_files(),
        daemon.watches(),
    );
    let mut making = JoinSet::new();
    for i in 0..300 {
        let node = node.clone();
        making.spawn(async move {
            let name = format!("c{i}");
            node.allocate(&name).await?;
            node.start(&name, "main", "sleep 1000").await
        });
    }
    for made in making.join_all().await {
        made.unwrap();
    }
    let cells = node.list().await.unwrap();
    assert_eq!(cells.len(), 301);
    assert!(cells.iter().all(|cell| cell.state() == CellState::Ready));
    let mut freeing = JoinSet::new();
    for i in 0..300 {
        let node = node.clone();
        freeing.spawn(async move { node.free(&format!("c{i}")).await });
    }
    for freed in freeing.join_all().await {
        freed.unwrap();
    }
    daemon.host().returns_to(&before).await;
    settled(&daemon, files, watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_at_once_are_served() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let (before, files, watches) = (
        daemon.host().settled().await,
        daemon.open_files(),
        daemon.watches(),
    );
    let mut clients = JoinSet::new();
    for i in 0..100 {
        // Half of them come over TLS.
        let client = if i % 2 == 0 {
            daemon.node().await
        } else {
            let dir = daemon.data_dir().join("client");
            daemon.node_with(&dir).await.unwrap()
        };
        clients.spawn(async move {
            let name = format!("c{i}");
            client.allocate(&name).await.expect("a cell can be made");
            let words = client.shell(&name, "main", &format!("echo {i}")).await;
            assert_eq!(words, i.to_string());
            client.free(&name).await.expect("it can be freed");
            client
        });
    }
    let clients = clients.join_all().await;
    assert_eq!(clients.len(), 100);
    assert!(daemon.open_files() >= files + 100, "they are all connected");
    drop(clients);
    daemon.host().returns_to(&before).await;
    settled(&daemon, files, watches).await;
}

/// Does one thing, and is gone after a while that is different each time.
async fn vanish(daemon: &Daemon, number: u64) {
    let client = daemon.node().await;
    let name = format!("v{}", number % 7);
    let call = async {
        match number % 6 {
            0 | 1 => drop(client.allocate(&name).await),
            2 => drop(client.start(&name, "main", "sleep 1000").await),
            3 => drop(client.stop(&name, "main").await),
            4 => drop(client.wait(&name, "main").await),
            _ => drop(client.free_now(&name).await),
        }
    };
    // Not to wait for anything: to cut off at a different place each time.
    let _ = tokio::time::timeout(Duration::from_micros(number * 37 % 3000), call).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_in_the_middle_of_a_call_leave_no_trace() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let (before, files, watches) = (
        daemon.host().settled().await,
        daemon.open_files(),
        daemon.watches(),
    );
    for number in 0..300 {
        vanish(&daemon, number).await;
    }
    // What they asked for is done or was never begun.
    let cells = wait_for("all calls to be over", TEST_TIMEOUT, async || {
        let cells = node.list().await.unwrap();
        let whole = cells.iter().all(|cell| cell.state() == CellState::Ready);
        same(whole, &true).map(|_| cells)
    })
    .await;
    for cell in cells.iter().filter(|cell| cell.name != "warm") {
        assert_eq!(node.shell(&cell.name, "probe", "echo whole").await, "whole");
    }
    for number in 0..7 {
        let name = format!("v{number}");
        node.allocate(&name).await.unwrap();
        node.free_now(&name).await.unwrap();
    }
    daemon.host().returns_to(&before).await;
    settled(&daemon, files, watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_in_the_middle_of_a_stream_leave_no_trace() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let talk = "sh -c 'i=0; while :; do i=$((i+1)); echo line $i; sleep 0.001; done'";
    let pid = node.start("web", "main", talk).await.unwrap();
    let (files, watches) = (daemon.open_files(), daemon.watches());
    for round in 0..20 {
        let client = daemon.node().await;
        let mut lines = client.stream(ChannelStdout, pid).await.unwrap();
        let request = WatchCellsRequest {
            under: String::new(),
            interval_ms: Some(100),
        };
        let watch = client.client().cells().watch(request).await.unwrap();
        let request = strata_testkit::observe::GetAuraeDaemonLogStreamRequest {};
        let mut observe = client.client().observe();
        let log = observe.get_aurae_daemon_log_stream(request).await.unwrap();
        for _ in 0..round {
            lines.message().await.unwrap();
        }
        drop((lines, watch, log, observe, client));
    }
    settled(&daemon, files, watches).await;
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_speak_nonsense_or_nothing_are_let_go() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let socket = daemon.endpoints().node_socket.unwrap();
    // Our own connection is accepted once it has been answered.
    assert!(node.names().await.is_empty());
    let files = daemon.open_files();
    let half_of_http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04";
    for words in [&b""[..], b"\0", b"GET / HTTP/1.1\r\n", half_of_http2] {
        for _ in 0..10 {
            let mut stream = UnixStream::connect(&socket).await.unwrap();
            // It may be closed before all is said.
            let _ = stream.write_all(words).await;
        }
    }
    let port = daemon.endpoints().node.unwrap();
    let port = port.trim_start_matches("https://").to_owned();
    for words in [
        &b""[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
    ] {
        for _ in 0..10 {
            let mut stream = tokio::net::TcpStream::connect(&port).await.unwrap();
            let _ = stream.write_all(words).await;
        }
    }
    settled(&daemon, files, daemon.watches()).await;
    assert!(node.names().await.is_empty());
}
