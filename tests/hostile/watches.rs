//! Memory: answers that are asked for and never read.

use std::time::Duration;

use http::Method;
use strata_testkit::{Daemon, TEST_TIMEOUT, holds, wait_for};

use super::STRATA;
use super::http2_client::{Caller, Connection, resident};

/// More than the ring of events holds.
const EVENTS: usize = 4200;
const MANY: usize = 256;
const MOST: u64 = 50 << 20;

async fn run(daemon: &Daemon, words: &[&str]) -> String {
    let ran = daemon.cli_with_endpoints().run(words.iter().copied()).await;
    ran.ok().trim().to_owned()
}

/// A server that has much to tell to whoever is of the project `shop`, and the
/// token of somebody who is.
pub(super) async fn world() -> (Daemon, String) {
    let (daemon, _node) = Daemon::up(STRATA).await;
    run(&daemon, &["project", "create", "shop"]).await;
    let words = [
        "token",
        "create",
        "--name",
        "shop",
        "--role",
        "viewer",
        "--project",
        "shop",
        "-q",
    ];
    let token = run(&daemon, &words).await;
    let admin = std::fs::read_to_string(daemon.data_dir().join("client/token")).unwrap();
    let admin = Caller::of(&daemon, Some(admin.trim()));
    let workers = (0..16).map(|worker| {
        let admin = admin.clone();
        tokio::spawn(async move {
            let mut connection = admin.connect(1 << 20).await.unwrap();
            for n in (worker..EVENTS).step_by(16) {
                let name = format!("w{n}-{}", "x".repeat(50));
                let label = "y".repeat(200);
                let body = format!(
                    r#"{{"name":"{name}","project":"shop","uri":"x","labels":{{"a":"{label}"}}}}"#
                );
                let made = connection.ask(Method::PUT, "/workload", &body).await;
                assert_eq!(made.unwrap().0, 201);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    (daemon, token)
}

/// Opens as many as there may be on one connection, in windows of no size, and
/// tells what was answered.
pub(super) async fn open(connection: &mut Connection, path: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..MANY {
        let answer = connection.begin(path).await.unwrap();
        statuses.push(answer.status().as_u16());
        // Dropping an answer would end its stream.
        std::mem::forget(answer);
    }
    statuses
}

/// The memory of the daemon, once it does not grow any more.
async fn settled(daemon: &Daemon) -> u64 {
    let mut last = 0;
    wait_for("memory to settle", TEST_TIMEOUT, async || {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let before = std::mem::replace(&mut last, resident(daemon.pid()));
        holds(last <= before + (1 << 20))
    })
    .await;
    last
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn unread_watches_and_lists_of_a_project_token_cost_little() {
    let (daemon, token) = world().await;
    let caller = Caller::of(&daemon, Some(&token));
    for (path, window) in [
        // Watches: no window at all, and windows that TCP does not empty.
        ("/event?watch=true", 0),
        ("/workload?watch=true", 0),
        ("/event?watch=true", 1 << 24),
        ("/workload?watch=true", 1 << 24),
        // Lists of a third of a megabyte.
        ("/workload?limit=1000", 0),
        ("/workload?limit=1000", 1 << 24),
    ] {
        let before = resident(daemon.pid());
        let mut connection = caller.connect(window).await.unwrap();
        match window {
            0 => {
                let statuses = open(&mut connection, path).await;
                let known = |status: &u16| [200, 429].contains(status);
                assert!(statuses.iter().all(known), "{path}: {statuses:?}");
                let watches = path.contains("watch");
                assert!(!watches || statuses.iter().all(|status| *status == 200));
            }
            _ => {
                // The server's settings have come with the first answer.
                let first = connection.ask(Method::GET, "/healthz", "").await;
                assert_eq!(first.unwrap().0, 200);
                connection.ask_and_freeze(path, MANY);
            }
        }
        let grown = settled(&daemon).await.saturating_sub(before);
        eprintln!("{path}, window {window}: {} kB", grown >> 10);
        let most = MOST >> 20;
        assert!(
            grown < MOST,
            "{path}, window {window}: {} MB of {most}",
            grown >> 20
        );
        drop(connection);
        // The server has noticed that the connection is gone.
        let mut again = caller.connect(1 << 20).await.unwrap();
        wait_for("room again", TEST_TIMEOUT, async || {
            let asked = again.ask(Method::GET, "/workload?limit=1000", "").await;
            match asked {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}
