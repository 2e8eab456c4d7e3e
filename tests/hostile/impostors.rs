//! Nodes that are not who they say: with a token for another, with the name of
//! one that is away, with what is left of one that was removed.

use strata_testkit::cluster::Cluster;
use strata_testkit::{Daemon, DaemonBuilder, wait_for};

use crate::hostile::{STRATA, TEST_TIMEOUT};

async fn token(cluster: &Cluster, words: &[&str]) -> String {
    let words = [&["token", "create", "--join", "-q"], words].concat();
    cluster.cli().run(words).await.ok().trim().to_owned()
}

/// A node that joins under a name from a place of its own.
fn joining(cluster: &Cluster, place: u8, name: &str, token: &str) -> DaemonBuilder {
    let plug = cluster.switch.plug(place);
    Daemon::build(STRATA)
        .role("node")
        .config("[images]\nhigh_water = 100\n")
        .within(&plug.network)
        .arg("--server")
        .arg(cluster.url())
        .arg("--join-token")
        .arg(token)
        .arg("--name")
        .arg(name)
}

/// What joining with these words says; it must not come to serve.
async fn refused(cluster: &Cluster, place: u8, name: &str, token: &str) -> String {
    let plug = cluster.switch.plug(place);
    let dir = cluster.server.scratch().join(format!("impostor-{place}"));
    let dir = dir.display().to_string();
    let url = cluster.url();
    let words = [
        "node",
        "--data-dir",
        &dir,
        "--node-listen",
        "127.0.0.1:0",
        "--server",
        &url,
        "--join-token",
        token,
        "--name",
        name,
    ];
    let ran = cluster.server.cli().within(&plug.network).run(words).await;
    assert!([5, 6].contains(&ran.code.unwrap()), "{ran:?}");
    assert!(!ran.stdout.contains("ready"), "{ran:?}");
    assert!(!ran.stderr.contains(token), "{ran:?}");
    ran.stderr
}

/// Waits until a daemon's log has something for the `times`th time.
async fn says(daemon: &Daemon, what: &str, times: usize) {
    wait_for("a line in the log", TEST_TIMEOUT, async || {
        let log = daemon.log();
        match log.matches(what).count() >= times {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_node_is_replaced_only_with_an_admin_token() {
    let mut cluster = Cluster::start(STRATA, 1).await;
    cluster.nodes[0].daemon.kill();
    cluster.node_is("n1", "LOST").await;
    // With a token for another, and with one of its name that is for a new node.
    let other = token(&cluster, &["--name", "something-else"]).await;
    let why = refused(&cluster, 30, "n1", &other).await;
    assert!(why.contains("something-else"), "{why}");
    let same = token(&cluster, &["--name", "n1"]).await;
    let why = refused(&cluster, 31, "n1", &same).await;
    assert!(why.contains("--replace"), "{why}");
    cluster.node_is("n1", "LOST").await;

    let replacing = token(&cluster, &["--name", "n1", "--replace"]).await;
    let new = joining(&cluster, 32, "n1", &replacing).start().await;
    cluster.node_is("n1", "READY").await;
    // The one before comes back, and is told that it is not n1 any more.
    cluster.nodes[0].daemon.restart().await;
    says(&cluster.nodes[0].daemon, "was revoked", 1).await;
    cluster.node_is("n1", "READY").await;
    assert_eq!(new.log().matches("opened another stream").count(), 0);
    assert_eq!(new.log().matches(" following").count(), 1, "{}", new.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_stays_removed_and_joins_again_with_a_new_token() {
    let mut cluster = Cluster::start(STRATA, 2).await;
    let mut updates = cluster.run(cluster.instance("it")).await;
    let removed = cluster.cli().run(["node", "remove", "n2", "--yes"]).await;
    removed.ok();
    updates.until_running().await;
    // It is cut off at once, and after a restart.
    let out = "was revoked";
    says(&cluster.nodes[1].daemon, out, 1).await;
    cluster.nodes[1].daemon.kill();
    cluster.nodes[1].daemon.restart().await;
    says(&cluster.nodes[1].daemon, out, 2).await;
    let nodes = cluster.rest().get("/node/").await;
    assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes}");
    let listed = cluster
        .cli()
        .run(["certificate", "list", "-o", "json"])
        .await;
    let listed = listed.json();
    let of = |name: &str| {
        let all = listed.as_array().unwrap().iter();
        let of: Vec<_> = all.filter(|one| one["name"] == name).cloned().collect();
        of
    };
    assert!(
        of("n2").iter().all(|one| one["revoked"] == true),
        "{listed}"
    );
    assert!(!of("n2").is_empty() && of("n1").iter().all(|one| one["revoked"] == false));

    // The same machine, with the same directory.
    let again = token(&cluster, &["--name", "n2"]).await;
    cluster.nodes[1].daemon.kill();
    cluster.nodes[1].daemon.set_argument("--join-token", &again);
    cluster.nodes[1].daemon.restart().await;
    cluster.node_is("n2", "READY").await;
}
