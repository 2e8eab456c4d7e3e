//! Connections that have shaken hands and prove nothing.

use std::time::Duration;

use http::Method;
use strata_testkit::Daemon;

use super::STRATA;
use super::client::{Caller, Latencies};

async fn token(daemon: &Daemon, name: &str, role: &str) -> String {
    let words = ["token", "create", "--name", name, "--role", role, "-q"];
    daemon.told_cli().run(words).await.ok().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_strangers_lock_out_neither_tokens_nor_the_cli() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let token = token(&daemon, "ci", "viewer").await;
    let (stranger, caller) = (Caller::of(&daemon, None), Caller::of(&daemon, Some(&token)));
    // Opened before the crowd, and idle while it comes.
    let mut old = caller.connect(1 << 20).await.unwrap();
    let (status, _) = old.ask(Method::GET, "/version", "").await.unwrap();
    assert_eq!(status, 200);
    let workers = (0..8).map(|_| {
        let stranger = stranger.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            for _ in 0..140 {
                let mut one = stranger.connect(1 << 16).await.unwrap();
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
    daemon.told_cli().run(["whoami"]).await.ok();
    // What the crowd holds is bounded; the rest was closed.
    let mut open = 0;
    for one in &mut crowd {
        let asked = one.ask(Method::GET, "/healthz", "");
        let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
        open += usize::from(matches!(asked, Ok(Ok(_))));
    }
    assert!(open <= 256, "{open} strangers of one address are held");
}
