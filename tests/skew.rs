//! Releases side by side: servers and nodes of the previous release and of this
//! one work with each other, and an upgrade in either order costs no run.
//!
//! The binary of the previous release is built by `scripts/previous-release`,
//! which `make test-skew` does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time, holds, skip, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// Where the binary of the previous release is.
const PREVIOUS: &str = "STRATA_PREVIOUS_BINARY";
const CONFIG: &str = "[scheduler]\nlease_seconds = 10\npolicy = \"spread\"\n";
const NAMES: [&str; 2] = ["a", "b"];
const IDS: [&str; 2] = ["id-a", "id-b"];

/// The binary of the previous release.
fn previous() -> Option<PathBuf> {
    if let Some(binary) = std::env::var_os(PREVIOUS) {
        return Some(binary.into());
    }
    skip("there is no binary of the previous release: run make test-skew");
    None
}

/// A server and two nodes, each of their release, with an instance on each node.
async fn cluster(server: PathBuf, nodes: PathBuf) -> (Cluster, Ledger) {
    let cluster = Cluster::build(server)
        .node_binary(nodes)
        .server_config(CONFIG)
        .nodes(2)
        .start()
        .await;
    let ledger = Ledger::new();
    for name in NAMES {
        ledger.create(&cluster, name, json!({})).await;
    }
    (cluster, ledger)
}

async fn pass(time: Duration) {
    let begin = boot_time();
    wait_for("time to pass", TEST_TIMEOUT, async || {
        holds(boot_time() > begin + time)
    })
    .await;
}

/// Logs, commands, a stop, a start and a change go through.
async fn works(cluster: &Cluster, ledger: &Ledger) {
    let rest = cluster.rest();
    let command = json!({ "command": ["echo", "hello"] });
    let answer = rest.call("POST", "/instance/id-a/exec", command).await;
    assert!(answer.body.contains("hello"), "{answer:?}");
    let runs = ledger.runs("a").len();
    rest.patch("/instance/id-a", json!({ "status": "STOPPED" }))
        .await;
    wait_for("it to stop", TEST_TIMEOUT, async || {
        holds(ledger.is_silent("a"))
    })
    .await;
    rest.patch("/instance/id-a", json!({ "status": "RUNNING" }))
        .await;
    ledger.run("a", runs + 1).await;
    let runs = ledger.runs("b").len();
    rest.patch("/instance/id-b", json!({ "resources": { "cpu": 20 } }))
        .await;
    ledger.run("b", runs + 1).await;
    cluster.settles(&IDS, &[]).await;
    // What is placed again is exclusive where both sides confirm moves.
    ledger.assert_exclusive(&["a"]);
}

/// No run has ended, and all go on.
async fn assert_untouched(ledger: &Ledger) {
    for name in NAMES {
        assert_eq!(
            ledger.runs(name).len(),
            1,
            "{name}: {:?}",
            ledger.runs(name)
        );
        ledger.assert_running(name).await;
    }
}

async fn upgrade_server(cluster: &mut Cluster) {
    let follows = follows(cluster);
    cluster.server.terminate().await;
    cluster.server.set_binary(STRATA);
    cluster.server.restart().await;
    for (node, times) in follows.into_iter().enumerate() {
        cluster.followed(node, times + 1).await;
    }
}

async fn upgrade_node(cluster: &mut Cluster, node: usize) {
    let follows = follows(cluster)[node];
    let daemon = &mut cluster.nodes[node].daemon;
    daemon.terminate().await;
    daemon.set_binary(STRATA);
    daemon.restart().await;
    cluster.followed(node, follows + 1).await;
}

/// How often each node has come to follow the server.
fn follows(cluster: &Cluster) -> Vec<usize> {
    let nodes = cluster.nodes.iter();
    let logs = nodes.map(|node| node.daemon.log());
    logs.map(|log| log.matches(" following").count()).collect()
}

/// What an upgraded cluster promises: a node that is killed costs a lease, and
/// nothing runs twice.
async fn fails_over(cluster: &mut Cluster, ledger: &Ledger) {
    // Until all have confirmed that they hold leases.
    pass(Duration::from_secs(5)).await;
    let one = cluster.rest().get("/instance/id-a").await;
    let at = usize::from(one["node"] == "n2");
    let runs = ledger.runs("a").len();
    cluster.nodes[at].daemon.kill();
    ledger.run("a", runs + 1).await;
    cluster.nodes[at].daemon.restart().await;
    cluster.settles(&IDS, &[]).await;
    ledger.assert_exclusive(&NAMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_this_release_work_with_a_server_of_the_previous() {
    let Some(previous) = previous() else { return };
    let (cluster, ledger) = cluster(previous, STRATA.into()).await;
    works(&cluster, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_the_previous_release_work_with_a_server_of_this() {
    let Some(previous) = previous() else { return };
    let (cluster, ledger) = cluster(STRATA.into(), previous).await;
    works(&cluster, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_of_the_server_before_its_nodes_costs_no_run() {
    let Some(previous) = previous() else { return };
    let (mut cluster, ledger) = cluster(previous.clone(), previous).await;
    upgrade_server(&mut cluster).await;
    pass(Duration::from_secs(12)).await;
    assert_untouched(&ledger).await;
    for node in 0..2 {
        upgrade_node(&mut cluster, node).await;
        pass(Duration::from_secs(3)).await;
        assert_untouched(&ledger).await;
    }
    pass(Duration::from_secs(12)).await;
    assert_untouched(&ledger).await;
    fails_over(&mut cluster, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_of_the_nodes_before_their_server_costs_no_run() {
    let Some(previous) = previous() else { return };
    let (mut cluster, ledger) = cluster(previous.clone(), previous).await;
    for node in 0..2 {
        upgrade_node(&mut cluster, node).await;
        pass(Duration::from_secs(3)).await;
        assert_untouched(&ledger).await;
    }
    upgrade_server(&mut cluster).await;
    pass(Duration::from_secs(12)).await;
    assert_untouched(&ledger).await;
    fails_over(&mut cluster, &ledger).await;
}
