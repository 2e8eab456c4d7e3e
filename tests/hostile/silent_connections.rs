//! Silent connections without credentials, from the host of everybody else.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use strata_testkit::{Credentials, Daemon, NodeClient, Target, v1};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::STRATA;
use super::http2_client::{Caller, Latencies, Rounds};
use super::load_ledger::Ledger;

/// The least patience of a node: three quarters of the shortest lease.
pub(super) const LATE: Duration = Duration::from_millis(2250);

pub(super) async fn node_certificate(daemon: &Daemon) -> std::path::PathBuf {
    let dir = daemon.scratch().join("ledger");
    let out = dir.display().to_string();
    let words = [
        "certificate",
        "issue",
        "--role",
        "node",
        "--name",
        "ledger",
        "--out",
        &out,
    ];
    daemon.cli_with_endpoints().run(words).await.ok();
    dir
}

/// Keeps so many silent connections open, and opens what is closed again.
pub(super) async fn hold_silent(address: String, many: usize) {
    let mut held = VecDeque::new();
    for n in 0.. {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        if n % 3 == 0 {
            // The beginning of a handshake, and then nothing.
            let _ = stream.write_all(b"\x16\x03\x01\x02\x00\x01").await;
        }
        held.push_back(stream);
        if held.len() > many {
            held.pop_front();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn silent_connections_of_one_host_do_not_block_others() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let server = daemon.endpoints().server.unwrap();
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    let caller = Caller::of(&daemon, None);
    let address = server.trim_start_matches("https://").to_owned();
    for many in [600, 1500] {
        let mut rounds = Rounds::default();
        for _ in 0..5 {
            rounds.base(&caller, "/healthz", 40).await;
            let attack = tokio::spawn(hold_silent(address.clone(), many));
            rounds.during(&caller, "/healthz", 40).await;
            daemon.cli_with_endpoints().run(["whoami"]).await.ok();
            attack.abort();
            let _ = attack.await;
        }
        eprintln!("{many} silent connections: {rounds}");
        rounds.assert_within_twice("silent connections");
    }
    let (beats, slowest) = ledger.close();
    assert!(beats > 10, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
}

/// The same on the port of a node, which every container of its host and every
/// other node could reach.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_lock_out_node_clients() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let url = daemon.endpoints().node.unwrap();
    let address = url.trim_start_matches("https://").to_owned();
    let target = Target::Tls {
        address: url.parse().unwrap(),
        credentials: Credentials::read(&daemon.data_dir().join("client")).unwrap(),
    };
    let attack = tokio::spawn(hold_silent(address, 1500));
    for _ in 0..30 {
        let begin = Instant::now();
        let client = NodeClient::connect(&target).await.unwrap();
        let listed = client.cells().list(v1::ListCellsRequest::default()).await;
        listed.unwrap();
        assert!(begin.elapsed() < LATE, "{:?}", begin.elapsed());
    }
    assert!(!attack.is_finished());
    attack.abort();
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn flood_of_handshakes_delays_no_heartbeat() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let server = daemon.endpoints().server.unwrap();
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    let caller = Caller::of(&daemon, None);
    let until = Instant::now() + Duration::from_secs(5);
    let workers = (0..32).map(|_| {
        let caller = caller.clone();
        tokio::spawn(async move {
            let mut done = 0usize;
            while Instant::now() < until {
                // Whole handshakes, each dropped at once.
                done += usize::from(caller.tls().await.is_ok());
            }
            done
        })
    });
    let mut handshakes = 0;
    for worker in workers.collect::<Vec<_>>() {
        handshakes += worker.await.unwrap();
    }
    Latencies::of(&caller, "/healthz", 5).await;
    let (beats, slowest) = ledger.close();
    eprintln!("{handshakes} handshakes; {beats} heartbeats, the slowest {slowest:?}");
    assert!(handshakes > 100, "{handshakes}");
    assert!(beats > 10, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
}
