//! All of it at once, from one host and one token of a project: silent
//! connections, connections that showed the token and then say nothing, and
//! watches that are never read. Others are answered as before, no heartbeat is
//! late, and the memory of the server is bounded.

use std::time::Duration;

use http::Method;
use strata_testkit::{Daemon, wait_for};

use super::http2_client::{Caller, Connection, Latencies, Rounds, resident};
use super::load_ledger::Ledger;
use super::silent_connections::{LATE, hold_silent, node_certificate};
use super::{TEST_TIMEOUT, watches};

const CONNECTIONS: usize = 600;
const MOST: u64 = 50 << 20;
const ROUNDS: usize = 5;

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
    let made = daemon.cli_with_endpoints().run(words).await;
    made.ok().trim().to_owned()
}

/// Opens the watches; the budget of the round before may hold for a moment.
async fn unread_watches(attacker: &Caller) -> Connection {
    wait_for("the watches to be open", TEST_TIMEOUT, async || {
        let mut unread = attacker.connect(0).await.map_err(|e| e.to_string())?;
        let statuses = watches::open(&mut unread, "/event?watch=true").await;
        match statuses.iter().all(|status| *status == 200) {
            true => Ok(unread),
            false => Err(format!("{statuses:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn project_token_cannot_slow_down_other_callers() {
    let (daemon, token) = watches::world().await;
    let server = daemon.endpoints().server.unwrap();
    let address = server.trim_start_matches("https://").to_owned();
    let attacker = Caller::of(&daemon, Some(&token));
    let other = Caller::of(&daemon, Some(&another_token(&daemon).await));
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    // What the server keeps for connections is there from the first ones on.
    drop(Latencies::of(&other, "/project/shop", 20).await);
    let before = resident(daemon.pid());
    let (mut rounds, mut most) = (Rounds::default(), before);
    for _ in 0..ROUNDS {
        rounds.base(&other, "/project/shop", 40).await;
        let attack = [
            tokio::spawn(hold_silent(address.clone(), CONNECTIONS)),
            tokio::spawn(hold_known(attacker.clone())),
        ];
        let unread = unread_watches(&attacker).await;
        wait_for(
            "the connections to be there",
            TEST_TIMEOUT,
            async || match connections_to(&address) {
                many if many >= CONNECTIONS => Ok(()),
                many => Err(format!("{many} connections")),
            },
        )
        .await;
        rounds.during(&other, "/project/shop", 40).await;
        most = most.max(resident(daemon.pid()));
        daemon.cli_with_endpoints().run(["whoami"]).await.ok();
        for one in attack {
            one.abort();
            let _ = one.await;
        }
        drop(unread);
        wait_for(
            "the connections to be gone",
            TEST_TIMEOUT,
            async || match connections_to(&address) {
                many if many < 50 => Ok(()),
                many => Err(format!("{many} connections")),
            },
        )
        .await;
    }

    let grown = most.saturating_sub(before);
    eprintln!("{rounds}; {} kB more", grown >> 10);
    rounds.assert_within_twice("one token");
    assert!(grown < MOST, "{} MB more", grown >> 20);
    let (beats, slowest) = ledger.close();
    assert!(beats > 20, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
    let log = daemon.log();
    assert!(!log.contains("lease expired without a heartbeat"), "{log}");
    assert!(!log.contains("node lost"), "{log}");
}
