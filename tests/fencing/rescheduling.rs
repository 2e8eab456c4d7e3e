//! A move starts the new run only after the old one is confirmed to be gone.

use std::time::Duration;

use strata_testkit::Ledger;
use strata_testkit::cluster::TEST_TIMEOUT;
use strata_testkit::serde_json::json;
use strata_testkit::{boot_time, holds, wait_for};

use super::{cluster, failover, node_of, pass};

/// As long as the instances of these tests ignore what asks them to end.
const GRACE: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn drain_starts_elsewhere_what_has_ended_and_is_done_when_all_has() {
    let cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    let grace = json!({ "stopGraceSeconds": GRACE });
    ledger.create(&cluster, "web", grace).await;
    let at = node_of(&cluster, "web").await;
    let name = cluster.nodes[at].name.clone();
    let drained = cluster.cli().run(["node", "drain", &name]).await;
    let done = boot_time();
    drained.ok();
    let first = &ledger.runs("web")[0];
    assert!(first.last <= done, "drained at {done:?}, {first:?}");
    failover(&ledger, "web", first.last, 0).await;
    pass(Duration::from_secs(1)).await;
    ledger.assert_exclusive(&["web"]);
    assert_ne!(node_of(&cluster, "web").await, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_specification_that_moves_waits_for_the_old_run() {
    let cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    let grace = json!({ "stopGraceSeconds": GRACE });
    ledger.create(&cluster, "web", grace).await;
    let rest = cluster.rest();
    for (number, cpu) in [(2, 20), (3, 30)] {
        let path = "/instance/id-web";
        rest.patch(path, json!({ "resources": { "cpu": cpu } }))
            .await;
        ledger.run("web", number).await;
    }
    pass(Duration::from_secs(1)).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_that_is_deleted_while_it_moves_is_there_until_it_has_ended() {
    let cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    let grace = json!({ "stopGraceSeconds": GRACE });
    ledger.create(&cluster, "web", grace).await;
    let rest = cluster.rest();
    let path = "/instance/id-web";
    rest.patch(path, json!({ "resources": { "cpu": 20 } }))
        .await;
    let deleted = rest.call("DELETE", path, json!(null)).await;
    assert_eq!(deleted.status, 202, "{deleted:?}");
    wait_for("it to be deleted", TEST_TIMEOUT, async || {
        holds(rest.call("GET", path, json!(null)).await.status == 404)
    })
    .await;
    let done = boot_time();
    pass(Duration::from_secs(2)).await;
    let runs = ledger.runs("web");
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].last <= done, "deleted at {done:?}, {:?}", runs[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn move_off_a_node_that_is_lost_meanwhile_ends_with_its_lease() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    // Longer than the lease: the node is lost while it stops the instance.
    let grace = json!({ "stopGraceSeconds": 60 });
    ledger.create(&cluster, "web", grace).await;
    let at = node_of(&cluster, "web").await;
    let name = cluster.nodes[at].name.clone();
    let path = format!("/node/{name}");
    cluster
        .rest()
        .patch(&path, json!({ "draining": true }))
        .await;
    wait_for("it to be placed elsewhere", TEST_TIMEOUT, async || {
        holds(node_of(&cluster, "web").await != at)
    })
    .await;
    let begin = boot_time();
    cluster.nodes[at].daemon.kill();
    failover(&ledger, "web", begin, 5).await;
    cluster.nodes[at].daemon.restart().await;
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn preempting_instance_starts_when_its_victim_has_ended() {
    let cluster = cluster(5, 1).await;
    let rest = cluster.rest();
    // Room for one of them.
    let limits = json!({ "limits": { "memory": 400 } });
    rest.patch("/node/n1", limits).await;
    let ledger = Ledger::new();
    let memory = json!({ "cpu": 10, "memory": 300 });
    let low = json!({ "resources": memory, "stopGraceSeconds": GRACE });
    ledger.create(&cluster, "low", low).await;
    let placement = json!({ "priority": 20, "preempts": true });
    let high = json!({ "resources": memory, "placement": placement });
    let high = ledger.create(&cluster, "high", high).await;
    let low = &ledger.runs("low")[0];
    assert!(
        high.first > low.last,
        "memory was promised twice: {low:?} {high:?}"
    );
    pass(Duration::from_secs(1)).await;
    ledger.assert_running("high").await;
    assert!(ledger.is_silent("low"));
}
