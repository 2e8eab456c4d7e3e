//! Projects do not reach each other, on one node and across nodes, by address
//! and by name, unless one allows the other.

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::pods::idle;
use strata_testkit::serde_json::json;
use strata_testkit::wait_for;

use super::project_world::{STRATA, project, run, web};

struct Instance {
    node: usize,
    pod: String,
    address: String,
}

/// Runs one on this node.
async fn on(cluster: &Cluster, project: &str, name: &str, node: &str) -> Instance {
    let mut instance = web(cluster, project, name);
    instance["placement"] = json!({ "constraints": [format!("at={node}")] });
    let made = run(cluster, instance).await;
    let (at, pod) = cluster.place(made["id"].as_str().unwrap()).await;
    Instance {
        node: at,
        pod: pod.spec.unwrap().name,
        address: pod.address,
    }
}

async fn fetch(cluster: &Cluster, from: &Instance, url: &str) -> Result<String, String> {
    let node = cluster.nodes[from.node].node().await;
    let command = format!("timeout 2 wget -q -O - {url}");
    let done = node.sh(&from.pod, &command).await;
    let done = done.map_err(|status| status.to_string())?;
    match done.stdout.trim() {
        "" => Err(format!("{done:?}")),
        text => Ok(text.to_owned()),
    }
}

async fn reaches(cluster: &Cluster, from: &Instance, to: &Instance, name: &str) {
    let url = format!("http://{}/name", to.address);
    wait_for("the way to be open", TEST_TIMEOUT, async || {
        match fetch(cluster, from, &url).await {
            Ok(text) if text == name => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn is_closed(cluster: &Cluster, from: &Instance, to: &Instance) {
    let url = format!("http://{}/name", to.address);
    wait_for(
        "the way to be closed",
        TEST_TIMEOUT,
        async || match fetch(cluster, from, &url).await {
            Err(_) => Ok(()),
            Ok(text) => Err(text),
        },
    )
    .await;
}

async fn allow(cluster: &Cluster, to: &str, from: &[&str]) {
    let path = format!("/project/{to}");
    let body = json!({ "allowFrom": from });
    cluster.rest().patch(&path, body).await;
}

async fn two_nodes() -> Cluster {
    let cluster = Cluster::start(STRATA, 2).await;
    for node in ["n1", "n2"] {
        let labels = json!({ "labels": { "at": node } });
        cluster.rest().patch(&format!("/node/{node}"), labels).await;
    }
    for name in ["shop", "rival"] {
        project(&cluster, json!({ "name": name })).await;
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn projects_are_isolated_by_default() {
    let cluster = two_nodes().await;
    let shop = on(&cluster, "shop", "web", "n1").await;
    let near = on(&cluster, "shop", "near", "n1").await;
    let far = on(&cluster, "shop", "far", "n2").await;
    let spy = on(&cluster, "rival", "spy", "n1").await;
    let far_spy = on(&cluster, "rival", "farspy", "n2").await;
    let plain = on(&cluster, "default", "plain", "n1").await;
    for friend in [&near, &far] {
        reaches(&cluster, friend, &shop, "web").await;
    }
    for unauthenticated in [&spy, &far_spy, &plain] {
        is_closed(&cluster, unauthenticated, &shop).await;
    }
    is_closed(&cluster, &far_spy, &plain).await;
    is_closed(&cluster, &shop, &far_spy).await;

    // Names are of the same project.
    let node = cluster.nodes[0].node().await;
    let named = node.sh(&near.pod, "nslookup web.shop").await.unwrap();
    assert!(named.stdout.contains(&shop.address), "{named:?}");
    for name in ["web.shop", "web.shop.strata.internal"] {
        let look = format!("timeout 5 nslookup {name}");
        let named = node.sh(&spy.pod, &look).await.unwrap();
        assert!(!named.stdout.contains(&shop.address), "{named:?}");
    }

    // Allowed, they get in, and only that way; and not any more.
    allow(&cluster, "shop", &["rival"]).await;
    for guest in [&spy, &far_spy] {
        reaches(&cluster, guest, &shop, "web").await;
        is_closed(&cluster, &shop, guest).await;
    }
    is_closed(&cluster, &plain, &shop).await;
    let named = node.sh(&spy.pod, "nslookup web.shop").await.unwrap();
    assert!(named.stdout.contains(&shop.address), "{named:?}");
    // The default project is one like the others there.
    let far_plain = on(&cluster, "default", "farplain", "n2").await;
    is_closed(&cluster, &far_plain, &shop).await;
    allow(&cluster, "shop", &["default"]).await;
    for guest in [&plain, &far_plain] {
        reaches(&cluster, guest, &shop, "web").await;
    }
    is_closed(&cluster, &shop, &far_plain).await;
    is_closed(&cluster, &far_spy, &shop).await;
    allow(&cluster, "shop", &[]).await;
    for unauthenticated in [&spy, &far_spy] {
        is_closed(&cluster, unauthenticated, &shop).await;
    }
}

/// A pod that the server knows nothing of, and so has announced to no node, sends
/// its queries to the resolver of another node.
#[tokio::test(flavor = "multi_thread")]
async fn source_that_is_not_announced_gets_no_names() {
    let cluster = two_nodes().await;
    let plain = on(&cluster, "default", "plain", "n1").await;
    let far = on(&cluster, "default", "far", "n2").await;
    reaches(&cluster, &far, &plain, "plain").await;
    let node = cluster.nodes[far.node].node().await;
    node.run_pod(idle("unknown", &cluster.image)).await.unwrap();
    let gateway = |address: &str| format!("{}.1", address.rsplit_once('.').unwrap().0);
    let (near, remote) = (gateway(&far.address), gateway(&plain.address));
    // The resolver of its own node knows it, as one of the default project.
    let named = node
        .says("unknown", &format!("nslookup plain.default {near}"))
        .await;
    assert!(named.contains(&plain.address), "{named}");
    for name in ["plain", "plain.default", "plain.default.strata.internal"] {
        let look = format!("timeout 5 nslookup {name} {remote}; true");
        let named = node.says("unknown", &look).await;
        assert!(!named.contains(&plain.address), "{name}: {named}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_people_do_not_move_an_instance_into_another_project() {
    let cluster = two_nodes().await;
    let shop = on(&cluster, "shop", "web", "n1").await;
    let mut liar = web(&cluster, "rival", "liar");
    liar["labels"] = json!({ "strata.dev/project": "shop" });
    liar["placement"] = json!({ "constraints": ["at=n1"] });
    run(&cluster, liar).await;
    let (node, pod) = cluster.place("id-liar").await;
    let liar = Instance {
        node,
        pod: pod.spec.unwrap().name,
        address: pod.address,
    };
    is_closed(&cluster, &liar, &shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_again_keeps_projects_apart() {
    let mut cluster = two_nodes().await;
    let shop = on(&cluster, "shop", "web", "n1").await;
    let far = on(&cluster, "shop", "far", "n2").await;
    let spy = on(&cluster, "rival", "spy", "n1").await;
    reaches(&cluster, &far, &shop, "web").await;
    cluster.nodes[0].daemon.kill();
    cluster.nodes[0].daemon.restart().await;
    is_closed(&cluster, &spy, &shop).await;
    reaches(&cluster, &far, &shop, "web").await;
    is_closed(&cluster, &spy, &shop).await;
}
