//! Nodes that were lost, and have kept each other's instances running, come back
//! one after the other.

use std::time::Duration;

use strata_testkit::cluster::TEST_TIMEOUT;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, NetworkNamespace, holds, wait_for};

use super::{cluster, node_of, pass};

/// Drops what a node sends to the server, and what comes from there. It reaches
/// all others.
pub(super) fn lose_server(network: &NetworkNamespace, server: &str) {
    let drop = format!(
        "add table inet away; \
         add chain inet away out {{ type filter hook output priority -400; }}; \
         add rule inet away out ip daddr {server} drop; \
         add chain inet away in {{ type filter hook input priority -400; }}; \
         add rule inet away in ip saddr {server} drop"
    );
    network.run(["nft", &drop]);
}

pub(super) fn find_server(network: &NetworkNamespace) {
    network.run(["nft", "delete", "table", "inet", "away"]);
}

/// Two nodes lose the server, and reach each other; a third joins. They come
/// back one after the other, first the one that has the instance. Its ledger.
async fn returning(one_after_the_other: bool) -> Ledger {
    const LEASE: u64 = 5;
    let mut cluster = cluster(LEASE, 2).await;
    let ledger = Ledger::new();
    let slow = json!({ "stopGraceSeconds": 20 });
    ledger.create(&cluster, "web", slow).await;
    let at = node_of(&cluster, "web").await;
    // Until both nodes have confirmed that they know each other.
    pass(Duration::from_secs(3)).await;
    let server = cluster.plug.address.to_string();
    lose_server(cluster.nodes[1 - at].network(), &server);
    if one_after_the_other {
        // So the witness is lost first, and is given nothing.
        pass(Duration::from_secs(2)).await;
    }
    lose_server(cluster.nodes[at].network(), &server);
    // The server is not alone, so it counts them as lost.
    cluster.add_node().await;
    let rest = cluster.rest();
    for node in [at, 1 - at] {
        cluster.node_is(&cluster.nodes[node].name, "LOST").await;
    }
    wait_for("it to have no node", TEST_TIMEOUT, async || {
        let one = rest.get("/instance/id-web").await;
        holds(one["node"].as_str().unwrap_or_default().is_empty()).map_err(|_| one.to_string())
    })
    .await;
    ledger.assert_running("web").await;
    find_server(cluster.nodes[at].network());
    cluster.followed(at, 2).await;
    find_server(cluster.nodes[1 - at].network());
    cluster.followed(1 - at, 2).await;
    // Longer than every promise, and than the time that it has to end.
    pass(Duration::from_secs(4 * LEASE)).await;
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
    ledger.assert_running("web").await;
    ledger
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_is_back_before_its_witness_keeps_what_was_placed_nowhere() {
    let ledger = returning(true).await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
}

/// Then it may have been placed on the second before that was lost, too.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_lost_together_and_return_in_turn_leave_no_second_run() {
    returning(false).await;
}
