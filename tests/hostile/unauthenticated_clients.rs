//! Connections that have shaken hands and prove nothing.

use std::time::Duration;

use http::Method;
use strata_testkit::Daemon;

use super::STRATA;
use super::http2_client::{Caller, Latencies};

async fn token(daemon: &Daemon, name: &str, role: &str) -> String {
    let words = ["token", "create", "--name", name, "--role", role, "-q"];
    daemon
        .cli_with_endpoints()
        .run(words)
        .await
        .ok()
        .trim()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_unauthenticated_clients_lock_out_neither_tokens_nor_the_cli() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let token = token(&daemon, "ci", "viewer").await;
    let (unauthenticated, caller) = (Caller::of(&daemon, None), Caller::of(&daemon, Some(&token)));
    // Opened before the crowd, and idle while it comes.
    let mut old = caller.connect(1 << 20).await.unwrap();
    let (status, _) = old.ask(Method::GET, "/version", "").await.unwrap();
    assert_eq!(status, 200);
    let workers = (0..8).map(|_| {
        let unauthenticated = unauthenticated.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            for _ in 0..140 {
                let mut one = unauthenticated.connect(1 << 16).await.unwrap();
                let _ = one.ask(Method::GET, "/healthz", "").await;
                held.push(one);
            }
            held
        })
    });
    let mut crowd = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        crowd.extend(worker.await.unwrap());
    }
    Latencies::of(&caller, "/version", 30).await;
    let (status, _) = old.ask(Method::GET, "/version", "").await.unwrap();
    assert_eq!(status, 200, "a connection that showed its token is kept");
    daemon.cli_with_endpoints().run(["whoami"]).await.ok();
    // What the crowd holds is bounded; the rest was closed.
    let mut open = 0;
    for one in &mut crowd {
        let asked = one.ask(Method::GET, "/healthz", "");
        let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
        open += usize::from(matches!(asked, Ok(Ok(_))));
    }
    assert!(open <= 256, "{open} strangers of one address are held");
}

/// The port of a node answers them too, and holds no more of them.
#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_clients_lock_nobody_out_of_a_node() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let client = daemon.data_dir().join("client");
    let address = daemon.endpoints().node.unwrap();
    let address = address.trim_start_matches("https://").parse().unwrap();
    let unauthenticated = Caller::new(address, &client.join("ca.crt"), None);
    let mut crowd = Vec::new();
    for _ in 0..400 {
        let mut one = unauthenticated.connect(1 << 16).await.unwrap();
        let (status, _) = one.ask(Method::GET, "/version", "").await.unwrap();
        assert!([401, 429].contains(&status), "{status}");
        crowd.push(one);
    }
    let admin = daemon.node_with(&client).await.unwrap();
    assert!(admin.names().await.is_empty());
    let mut open = 0;
    for one in &mut crowd {
        let asked = one.ask(Method::GET, "/healthz", "");
        let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
        open += usize::from(matches!(asked, Ok(Ok(_))));
    }
    assert!(open <= 256, "{open} strangers of one address are held");
}
