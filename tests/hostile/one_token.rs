//! All of it at once, from one host and one token of a project: silent
//! connections, connections that showed the token and then say nothing, and
//! watches that are never read. Others are answered as before, no heartbeat is
//! late, and the memory of the server is bounded.

use std::time::Duration;

use http::Method;
use strata_testkit::{Daemon, wait_for};

use super::client::{Caller, Latencies, resident};
use super::ledger::Ledger;
use super::silent::{LATE, NOISE, hold_silent, node_certificate};
use super::{PATIENCE, watches};

const CONNECTIONS: usize = 600;
const MOST: u64 = 50 << 20;

/// Opens connections that show the token once, and keeps them.
async fn hold_known(caller: Caller) {
    let mut held = Vec::new();
    loop {
        if held.len() >= CONNECTIONS {
            std::future::pending::<()>().await;
        }
        let Ok(mut connection) = caller.connect(1 << 16).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let _ = connection.ask(Method::GET, "/version", "").await;
        held.push(connection);
    }
}

/// How many connections to a port there are, as the server sees them.
fn connections_to(address: &str) -> usize {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let local = format!(":{port:04X} ");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let server_side = |line: &&str| {
        let mut words = line.split_whitespace();
        words
            .nth(1)
            .is_some_and(|own| format!("{own} ").ends_with(&local))
            && line.contains(" 01 ")
    };
    table.lines().skip(1).filter(server_side).count()
}

async fn another_token(daemon: &Daemon) -> String {
    let words = [
        "token",
        "create",
        "--name",
        "other",
        "--role",
        "viewer",
        "--project",
        "shop",
        "-q",
    ];
    let made = daemon.told_cli().run(words).await;
    made.ok().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn one_project_token_slows_nobody_down() {
    let (daemon, token) = watches::world().await;
    let server = daemon.endpoints().server.unwrap();
    let address = server.trim_start_matches("https://").to_owned();
    let attacker = Caller::of(&daemon, Some(&token));
    let other = Caller::of(&daemon, Some(&another_token(&daemon).await));
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    let mut base = Latencies::of(&other, "/project/shop", 60).await.p99();
    let before = resident(daemon.pid());

    let attack = [
        tokio::spawn(hold_silent(address.clone(), CONNECTIONS)),
        tokio::spawn(hold_known(attacker.clone())),
    ];
    let mut unread = attacker.connect(0).await.unwrap();
    let statuses = watches::open(&mut unread, "/event?watch=true").await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    wait_for(
        "the connections to be there",
        PATIENCE,
        async || match connections_to(&address) {
            many if many >= CONNECTIONS => Ok(()),
            many => Err(format!("{many} connections")),
        },
    )
    .await;
    let mut most = resident(daemon.pid());
    let mut during = Duration::ZERO;
    for _ in 0..5 {
        let part = Latencies::of(&other, "/project/shop", 40).await.p99();
        during = during.max(part);
        most = most.max(resident(daemon.pid()));
    }
    daemon.told_cli().run(["whoami"]).await.ok();
    for one in attack {
        one.abort();
        let _ = one.await;
    }
    drop(unread);
    base = base.max(Latencies::of(&other, "/project/shop", 60).await.p99());

    let grown = most.saturating_sub(before);
    eprintln!("p99 {during:?}, without {base:?}; {} kB more", grown >> 10);
    assert!(during <= base * 2 + NOISE, "{during:?}, without {base:?}");
    assert!(grown < MOST, "{} MB more", grown >> 20);
    let (beats, slowest) = ledger.close();
    assert!(beats > 20, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
    let log = daemon.log();
    assert!(!log.contains("no server was heard of"), "{log}");
    assert!(!log.contains("a node is lost"), "{log}");
}
