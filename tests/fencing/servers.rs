//! Several servers on one etcd: which of them leads, and whether it is there,
//! costs no run and doubles none.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, Etcd, Plug, Rest, Switch, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::{
    Code, Daemon, Ledger, NamespaceProxy, Status, boot_time, controller, holds, kaas, operations,
    scheduler, skip, v1, wait_for,
};

use super::{STRATA, node_of, pass};

struct Servers {
    cluster: Cluster,
    second: Daemon,
    second_plug: Plug,
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
    wait_for("the first to lead", TEST_TIMEOUT, async || {
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
    wait_for("the second to follow", TEST_TIMEOUT, async || {
        holds(second.log().contains("another server leads"))
    })
    .await;
    for _ in 0..2 {
        cluster.add_node().await;
    }
    Some(Servers {
        cluster,
        second,
        second_plug: plug,
        etcd,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_find_the_server_that_leads_next_and_go_on() {
    next_leader(10).await;
}

pub(super) async fn next_leader(lease: u64) {
    let Some(mut world) = servers(lease).await else {
        return;
    };
    let ledger = Ledger::new();
    ledger.create(&world.cluster, "a", json!({})).await;
    ledger.create(&world.cluster, "b", json!({})).await;
    world.cluster.server.terminate().await;
    wait_for("the second to lead", TEST_TIMEOUT, async || {
        holds(world.second.log().contains("this server leads"))
    })
    .await;
    for node in 0..2 {
        world.cluster.followed(node, 2).await;
    }
    pass(Duration::from_secs(12)).await;
    for name in ["a", "b"] {
        ledger.assert_running(name).await;
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

/// What a server knows that has not reached the store for more than ten seconds
/// may be outdated: it says so, by whichever API it is asked.
async fn reads_are_refused(cluster: &Cluster) {
    let unavailable = |what: &str, answer: Result<(), Status>| {
        let code = answer.map_err(|status| status.code());
        assert_eq!(code, Err(Code::Unavailable), "{what}");
    };
    let client = cluster.client().await;
    let list = kaas::GetClusterListMsg {};
    let listed = client.clusters().get_cluster_list(list).await;
    unavailable("clusters", listed.map(drop));
    let list = operations::ListHypervisorsRequest::default();
    let listed = client.operations().list_hypervisors(list).await;
    unavailable("operations", listed.map(drop));
    // It runs already: nothing would be written.
    let id = scheduler::InstanceIdentifier { id: "id-a".into() };
    let started = client.scheduler().start(id).await;
    unavailable("scheduler", started.map(drop));
    let status = controller::InstanceStatus {
        id: "id-a".into(),
        ..Default::default()
    };
    let told = client.controller().set_instance_status(status).await;
    unavailable("controller", told.map(drop));
    let logs = v1::PodLogsRequest {
        name: "id-a".into(),
        ..Default::default()
    };
    let logs = client.instances().logs(logs).await;
    unavailable("logs", logs.map(drop));
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_runs_nothing_on_nodes_that_follow_another() {
    paused_leader(10).await;
}

pub(super) async fn paused_leader(lease: u64) {
    let Some(world) = servers(lease).await else {
        return;
    };
    let ledger = Ledger::new();
    ledger.create(&world.cluster, "a", json!({})).await;
    pass(Duration::from_secs(2)).await;
    world.cluster.server.freeze(true);
    wait_for("the second to lead", TEST_TIMEOUT, async || {
        holds(world.second.log().contains("this server leads"))
    })
    .await;
    for node in 0..2 {
        world.cluster.followed(node, 2).await;
    }
    // It waits in the socket until the first goes on, and believes to lead.
    let rest = world.cluster.rest();
    let command = json!({ "command": ["touch", "/ledger/paused"] });
    let asked = rest.try_call("POST", "/instance/id-a/exec", command);
    let woken = async {
        pass(Duration::from_secs(1)).await;
        world.cluster.server.freeze(false);
    };
    let (answer, ()) = tokio::join!(asked, woken);
    if let Ok(answer) = answer {
        assert_ne!(answer.status, 200, "{answer:?}");
    }
    pass(Duration::from_secs(12)).await;
    assert!(!ledger.path().join("paused").exists(), "it was run");
    ledger.assert_exclusive(&["a"]);
    assert_eq!(ledger.runs("a").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_etcd_stops_nothing() {
    frozen_etcd(5).await;
}

pub(super) async fn frozen_etcd(lease: u64) {
    let Some(world) = servers(lease).await else {
        return;
    };
    let ledger = Ledger::new();
    ledger.create(&world.cluster, "a", json!({})).await;
    ledger.create(&world.cluster, "b", json!({})).await;
    pass(Duration::from_secs(2)).await;
    world.etcd.freeze(true);
    pass(Duration::from_secs(15)).await;
    for name in ["a", "b"] {
        ledger.assert_running(name).await;
    }
    reads_are_refused(&world.cluster).await;
    world.etcd.freeze(false);
    let begin = boot_time();
    wait_for("a server to lead again", TEST_TIMEOUT, async || {
        let path = "/instance/id-a";
        let rest = world.cluster.rest();
        let asked = rest.try_call("GET", path, json!(null)).await;
        holds(asked.is_ok_and(|answer| answer.status == 200))
    })
    .await;
    assert!(boot_time() > begin);
    pass(Duration::from_secs(10)).await;
    for name in ["a", "b"] {
        ledger.assert_running(name).await;
        assert_eq!(ledger.runs(name).len(), 1, "{:?}", ledger.runs(name));
    }
    let _ = node_of(&world.cluster, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_a_node_is_renewed_by_another_server_than_the_one_it_joined() {
    let Some(mut world) = servers(10).await else {
        return;
    };
    // Short: it is good from five minutes before, and renewed when two thirds of
    // its time are over, which is half a minute from now.
    let plug = world.cluster.switch.plug(20);
    let mut node = Daemon::build(STRATA)
        .role("node")
        .within(&plug.network)
        .arg("--server")
        .arg(world.cluster.url())
        .stopped();
    let identity = node.data_dir().join("identity").display().to_string();
    let short = ["certificate", "issue", "--role", "node", "--name", "n9"];
    let short = short
        .into_iter()
        .chain(["--ttl", "200s", "--out", &identity]);
    world.cluster.cli().run(short).await.ok();
    node.restart().await;
    wait_for("the node to follow", TEST_TIMEOUT, async || {
        holds(node.log().contains(" following"))
    })
    .await;
    world.cluster.server.kill();
    wait_for("the node to follow the second", TEST_TIMEOUT, async || {
        holds(node.log().matches(" following").count() >= 2)
    })
    .await;
    wait_for("its certificate to be renewed", TEST_TIMEOUT, async || {
        holds(node.log().contains("certificate renewed")).map_err(|_| node.log())
    })
    .await;
    // It shows the new one to the server that gave it.
    wait_for("the node to show it", TEST_TIMEOUT, async || {
        let log = node.log();
        let since = log
            .split_once("certificate renewed")
            .map_or("", |(_, since)| since);
        holds(since.contains(" following")).map_err(|_| log.clone())
    })
    .await;
    let far = (world.second_plug.address, 7700).into();
    let way = NamespaceProxy::to(&world.second_plug.network, far).await;
    let rest = Rest::new(way.near(), &world.second.data_dir().join("client"));
    let one = rest.get("/node/n9").await;
    assert_eq!(one["status"], "READY", "{one}\n{}", node.log());
}
