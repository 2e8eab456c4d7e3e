//! Losing the control plane stops nothing: a node that hears no server asks its
//! peers before it stops what it runs.

use std::time::Duration;

use strata_testkit::cluster::PATIENCE;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time, holds, wait_for};

use super::{cluster, failover, node_of, pass};

#[tokio::test(flavor = "multi_thread")]
async fn server_that_no_node_reaches_stops_nothing() {
    let mut cluster = cluster(10, 3).await;
    let ledger = Ledger::new();
    let names = ["a", "b", "c"];
    for name in names {
        ledger.create(&cluster, name, json!({})).await;
    }
    pass(Duration::from_secs(3)).await;
    cluster.switch.cut(&cluster.plug);
    pass(Duration::from_secs(20)).await;
    // Also a daemon that is restarted meanwhile: it looks for its server for
    // five seconds, which is less than the lease.
    cluster.nodes[0].daemon.kill();
    cluster.nodes[0].daemon.restart().await;
    pass(Duration::from_secs(15)).await;
    for name in names {
        assert!(ledger.is_running(name), "{name}: {:?}", ledger.runs(name));
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
    cluster.switch.heal(&cluster.plug);
    cluster.settles(&["id-a", "id-b", "id-c"], &[]).await;
    pass(Duration::from_secs(12)).await;
    for name in names {
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_alone_does_not_hear_its_server_is_refused_by_peers_that_do() {
    let cluster = cluster(5, 3).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(2)).await;
    // It reaches its peers, and not the server.
    let begin = boot_time();
    let server = cluster.plug.address.to_string();
    let network = cluster.nodes[at].network();
    let drop = format!(
        "add table inet away; \
         add chain inet away out {{ type filter hook output priority -400; }}; \
         add rule inet away out ip daddr {server} drop"
    );
    network.run(["nft", &drop]);
    failover(&ledger, "web", begin, 5).await;
    pass(Duration::from_secs(3)).await;
    network.run(["nft", "delete", "table", "inet", "away"]);
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
    assert_eq!(ledger.runs("web").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn available_instance_goes_on_when_its_node_is_cut_off() {
    let cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    let available = json!({ "placement": { "runs": "available" } });
    let first = ledger.create(&cluster, "web", available).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(2)).await;
    cluster.cut(at);
    ledger.run("web", 2).await;
    let begin = boot_time();
    wait_for("both to run side by side", PATIENCE, async || {
        let runs = ledger.runs("web");
        let goes_on = runs
            .iter()
            .any(|run| run.run == first.run && run.last > begin);
        holds(goes_on).map_err(|_| format!("{runs:?}"))
    })
    .await;
    cluster.heal(at);
    cluster.settles(&["id-web"], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_way_cable_leaves_no_second_run() {
    let cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    for deaf in [true, false] {
        let runs = ledger.runs("web").len();
        let at = node_of(&cluster, "web").await;
        let plug = &cluster.nodes[at].plug;
        match deaf {
            true => cluster.switch.deafen(plug),
            false => cluster.switch.mute(plug),
        }
        ledger.run("web", runs + 1).await;
        pass(Duration::from_secs(2)).await;
        cluster.switch.heal(plug);
        let name = cluster.nodes[at].name.clone();
        cluster.node_is(&name, "READY").await;
        cluster.settles(&["id-web"], &[]).await;
        ledger.assert_exclusive(&["web"]);
        pass(Duration::from_secs(2)).await;
    }
}
