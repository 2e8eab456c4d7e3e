//! Several servers on one etcd: which of them leads, and whether it is there,
//! costs no run and doubles none.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, Etcd, PATIENCE, Switch};
use strata_testkit::serde_json::json;
use strata_testkit::{Daemon, Ledger, boot_time, holds, skip, wait_for};

use super::{STRATA, node_of, pass};

struct Servers {
    cluster: Cluster,
    second: Daemon,
    etcd: Etcd,
}

/// Two servers and two nodes, which were started with the first alone.
async fn servers(lease: u64) -> Option<Servers> {
    if !Etcd::is_installed() {
        skip("there is no etcd on this machine");
        return None;
    }
    let switch = Switch::new();
    let etcd = Etcd::start(&switch);
    let config = format!(
        "[store]\netcd = [\"{}\"]\n[scheduler]\nlease_seconds = {lease}\npolicy = \"spread\"\n",
        etcd.url
    );
    let mut cluster = Cluster::build(STRATA)
        .on(&switch)
        .nodes(0)
        .server_config(&config)
        .start()
        .await;
    wait_for("the first to lead", PATIENCE, async || {
        holds(cluster.server.log().contains("this server leads"))
    })
    .await;
    let plug = switch.plug(2);
    let second = Daemon::build(STRATA)
        .role("server")
        .config(&config)
        .beside(&cluster.server)
        .listen("192.0.2.2:7700")
        .within(&plug.network)
        .start()
        .await;
    wait_for("the second to follow", PATIENCE, async || {
        holds(second.log().contains("another server leads"))
    })
    .await;
    for _ in 0..2 {
        cluster.add_node().await;
    }
    Some(Servers {
        cluster,
        second,
        etcd,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_find_the_server_that_leads_next_and_go_on() {
    let Some(mut world) = servers(10).await else {
        return;
    };
    let ledger = Ledger::new();
    ledger.create(&world.cluster, "a", json!({})).await;
    ledger.create(&world.cluster, "b", json!({})).await;
    world.cluster.server.terminate().await;
    wait_for("the second to lead", PATIENCE, async || {
        holds(world.second.log().contains("this server leads"))
    })
    .await;
    for node in 0..2 {
        world.cluster.followed(node, 2).await;
    }
    pass(Duration::from_secs(12)).await;
    for name in ["a", "b"] {
        assert!(ledger.is_running(name), "{:?}", ledger.runs(name));
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
    // The first is back as a follower, and sends nodes to the second.
    world.cluster.server.restart().await;
    world.cluster.nodes[0].daemon.kill();
    world.cluster.nodes[0].daemon.restart().await;
    world.cluster.followed(0, 3).await;
    pass(Duration::from_secs(2)).await;
    ledger.assert_exclusive(&["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_etcd_stops_nothing() {
    let Some(world) = servers(5).await else {
        return;
    };
    let ledger = Ledger::new();
    ledger.create(&world.cluster, "a", json!({})).await;
    ledger.create(&world.cluster, "b", json!({})).await;
    pass(Duration::from_secs(2)).await;
    world.etcd.freeze(true);
    pass(Duration::from_secs(15)).await;
    for name in ["a", "b"] {
        assert!(ledger.is_running(name), "{:?}", ledger.runs(name));
    }
    world.etcd.freeze(false);
    let begin = boot_time();
    wait_for("a server to lead again", PATIENCE, async || {
        let path = "/instance/id-a";
        let rest = world.cluster.rest();
        let asked = rest.try_call("GET", path, json!(null)).await;
        holds(asked.is_ok_and(|answer| answer.status == 200))
    })
    .await;
    assert!(boot_time() > begin);
    pass(Duration::from_secs(10)).await;
    for name in ["a", "b"] {
        assert!(ledger.is_running(name), "{:?}", ledger.runs(name));
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
    let _ = node_of(&world.cluster, "a").await;
}
