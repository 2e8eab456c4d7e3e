//! Losing the control plane stops nothing: a node that hears no server asks its
//! peers before it stops what it runs.

use std::time::Duration;

use strata_testkit::cluster::TEST_TIMEOUT;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time, holds, rounds, wait_for};

use super::returning_nodes::{find_server, lose_server};
use super::{FAILOVER, cluster, failover, node_of, pass};

/// What the instances of an outage are called, one for each node.
const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: [&str; 3] = ["id-a", "id-b", "id-c"];

/// No node reaches the server for this long, in which daemons are killed and
/// started again this often; then it is back. No run may have ended.
async fn server_is_gone(lease: u64, length: Duration, kills: u32) {
    let mut cluster = cluster(lease, 3).await;
    let ledger = Ledger::new();
    for name in NAMES {
        ledger.create(&cluster, name, json!({})).await;
    }
    // Until all have confirmed that they know each other.
    pass(Duration::from_secs(3)).await;
    let begin = boot_time();
    cluster.switch.cut(&cluster.plug);
    for number in 0..kills {
        let at = usize::try_from(number).unwrap() % cluster.nodes.len();
        pass_until(begin + length * (number + 1) / (kills + 1)).await;
        cluster.nodes[at].daemon.kill();
        cluster.nodes[at].daemon.restart().await;
        assert_one_run(&ledger).await;
    }
    pass_until(begin + length).await;
    assert_one_run(&ledger).await;
    cluster.switch.heal(&cluster.plug);
    cluster.settles(&IDS, &[]).await;
    // Also when the server has heard one node and not yet the others.
    pass(Duration::from_secs(lease * 5 / 2)).await;
    cluster.settles(&IDS, &[]).await;
    assert_one_run(&ledger).await;
}

async fn assert_one_run(ledger: &Ledger) {
    for name in NAMES {
        ledger.assert_running(name).await;
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
}

async fn pass_until(time: Duration) {
    while boot_time() < time {
        let rest = time.saturating_sub(boot_time());
        pass(rest.min(TEST_TIMEOUT / 2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_gone_for_twelve_seconds_stops_nothing_with_a_lease_of_five_seconds() {
    server_is_gone(5, Duration::from_secs(12), 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_gone_for_twelve_seconds_stops_nothing_with_a_lease_of_ten_seconds() {
    server_is_gone(10, Duration::from_secs(12), 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_outage_in_which_daemons_are_restarted_stops_nothing_with_a_lease_of_five_seconds() {
    let (seconds, kills) = rounds((30, 2), (600, 20));
    server_is_gone(5, Duration::from_secs(seconds), kills).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_outage_in_which_daemons_are_restarted_stops_nothing_with_a_lease_of_ten_seconds() {
    let (seconds, kills) = rounds((30, 1), (600, 20));
    server_is_gone(10, Duration::from_secs(seconds), kills).await;
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
    lose_server(network, &server);
    failover(&ledger, "web", begin, 5).await;
    pass(Duration::from_secs(3)).await;
    find_server(network);
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
    assert_eq!(ledger.runs("web").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn available_instance_goes_on_when_its_node_is_cut_off() {
    const LEASE: u64 = 5;
    let cluster = cluster(LEASE, 2).await;
    let ledger = Ledger::new();
    let available = json!({ "placement": { "runs": "available" } });
    let first = ledger.create(&cluster, "web", available).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(2)).await;
    let fault = boot_time();
    cluster.cut(at);
    let second = failover(&ledger, "web", fault, LEASE).await;
    let took = second.first.saturating_sub(fault);
    assert!(took <= Duration::from_secs(LEASE) + FAILOVER, "{took:?}");
    let begin = boot_time();
    wait_for("both to run side by side", TEST_TIMEOUT, async || {
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
async fn one_way_partition_causes_no_second_run() {
    one_way_partition(5).await;
}

pub(super) async fn one_way_partition(lease: u64) {
    let cluster = cluster(lease, 2).await;
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
