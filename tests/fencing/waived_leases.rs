//! A node goes on without a server only where a server has promised, and
//! recorded, that nothing is started elsewhere.

use std::time::Duration;

use strata_testkit::cluster::TEST_TIMEOUT;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time, holds, wait_for};

use super::{cluster, failover, node_of, pass};

#[tokio::test(flavor = "multi_thread")]
async fn only_node_that_is_cut_off_goes_on_and_nothing_of_it_runs_on_one_that_joins() {
    let mut cluster = cluster(5, 1).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    cluster.cut(0);
    cluster.node_is("n1", "LOST").await;
    cluster.add_node().await;
    pass(Duration::from_secs(8)).await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
    ledger.assert_running("web").await;
    // Back, it knows that there is another; from then on its lease holds.
    cluster.heal(0);
    cluster.node_is("n1", "READY").await;
    wait_for("the lease of n1 to have an end", TEST_TIMEOUT, async || {
        holds(cluster.nodes[0].daemon.log().contains("other nodes exist"))
    })
    .await;
    pass(Duration::from_secs(3)).await;
    let begin = boot_time();
    cluster.cut(0);
    failover(&ledger, "web", begin, 5).await;
    pass(Duration::from_secs(1)).await;
    cluster.heal(0);
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_instance_of_the_only_node_that_is_cut_off_runs_once() {
    let mut cluster = cluster(5, 1).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    cluster.cut(0);
    cluster.node_is("n1", "LOST").await;
    cluster.add_node().await;
    // It needs another place, and n2 has room for it.
    let changed = json!({ "resources": { "cpu": 20 } });
    cluster.rest().patch("/instance/id-web", changed).await;
    pass(Duration::from_secs(8)).await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
    ledger.assert_running("web").await;
    cluster.heal(0);
    ledger.run("web", 2).await;
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemon_of_the_only_node_stops_nothing() {
    let mut cluster = cluster(5, 1).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    pass(Duration::from_secs(2)).await;
    cluster.nodes[0].daemon.kill();
    pass(Duration::from_secs(8)).await;
    ledger.assert_running("web").await;
    cluster.nodes[0].daemon.restart().await;
    cluster.followed(0, 2).await;
    cluster.settles(&["id-web"], &[]).await;
    assert_eq!(ledger.runs("web").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn farewell_of_the_only_server_is_kept_when_it_is_back_and_the_node_is_not() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    cluster.server.terminate().await;
    pass(Duration::from_secs(7)).await;
    ledger.assert_running("web").await;
    // The server is back, the node is not: it was promised that it may go on.
    cluster.cut(at);
    cluster.server.restart().await;
    let name = cluster.nodes[at].name.clone();
    cluster.node_is(&name, "LOST").await;
    pass(Duration::from_secs(4)).await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
    cluster.heal(at);
    cluster.node_is(&name, "READY").await;
    cluster.settles(&["id-web"], &[]).await;
    assert_eq!(ledger.runs("web").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_stops_nothing_for_longer_than_the_lease() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "a", json!({})).await;
    ledger.create(&cluster, "b", json!({})).await;
    cluster.server.kill();
    pass(Duration::from_secs(12)).await;
    ledger.assert_running("a").await;
    ledger.assert_running("b").await;
    cluster.server.restart().await;
    cluster.settles(&["id-a", "id-b"], &[]).await;
    assert_eq!(ledger.runs("a").len() + ledger.runs("b").len(), 2);
}
