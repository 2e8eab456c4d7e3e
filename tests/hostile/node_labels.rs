//! Labels that a node says of itself: it would attract what selects on them,
//! with its secrets. They are requests until somebody accepts them.

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Daemon, same, wait_for};

use crate::hostile::{STRATA, TEST_TIMEOUT};

const LABELLED: &str =
    "[images]\nhigh_water = 100\n[node]\nlabels = { zone = 'pci', disk = 'ssd' }\n";

/// An instance for nodes of the zone `pci`.
fn selecting(cluster: &Cluster) -> Value {
    json!({
        "name": "vault", "project": "default", "uri": cluster.image,
        "environment": ["PASSWORD=correct-horse", "SCRIPT=sleep 600"],
        "placement": { "constraints": ["zone=pci"] },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_a_nodes_configuration_attracts_nothing_until_it_is_accepted() {
    let mut cluster = Cluster::start(STRATA, 1).await;
    cluster.add_node_with(LABELLED).await;
    cluster.node_is("n2", "READY").await;
    let node = cluster.rest().get("/node/n2").await;
    assert_eq!(node["labels"]["zone"], Value::Null, "{node}");
    assert!(node["labels"]["strata.dev/arch"].is_string(), "{node}");
    assert_eq!(
        node["requestedLabels"],
        json!({ "zone": "pci", "disk": "ssd" })
    );

    let rest = cluster.rest();
    let made = rest.call("PUT", "/instance", selecting(&cluster)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made: Value = strata_testkit::serde_json::from_str(&made.body).unwrap();
    let id = made["id"].as_str().unwrap();
    let failed = cluster.instance_until(id, |now| now["status"] == "FAILED");
    let failed = failed.await;
    assert_eq!(failed["node"].as_str().unwrap_or_default(), "", "{failed}");
    assert!(cluster.pods_on(1).await.is_empty());
    let shown = cluster.cli().run(["node", "show", "n2"]).await.ok();
    assert!(shown.contains("zone=pci (not accepted)"), "{shown}");
    let log = cluster.server.log();
    assert!(log.contains("strata node label n2 --accept"), "{log}");

    let accept = ["node", "label", "n2", "--accept"];
    cluster.cli().run(accept).await.ok();
    let runs = cluster.instance_until(id, |now| now["status"] == "RUNNING");
    assert_eq!(runs.await["node"], "n2");
    let node = cluster.rest().get("/node/n2").await;
    assert_eq!(node["labels"]["disk"], "ssd");
    assert_eq!(node["requestedLabels"], Value::Null, "{node}");
    // It stays so through a restart of the node, and of the server.
    cluster.nodes[1].daemon.kill();
    cluster.nodes[1].daemon.restart().await;
    cluster.followed(1, 1).await;
    let node = cluster.rest().get("/node/n2").await;
    assert_eq!(node["labels"]["zone"], "pci", "{node}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_grants_labels_and_the_node_of_strata_up_has_its_own() {
    let server = Daemon::build(STRATA).config(LABELLED).start().await;
    let cli = server.cli_with_endpoints();
    let nodes = async || {
        let listed = cli.run(["node", "list", "-o", "json"]).await.json();
        listed.as_array().cloned().unwrap()
    };
    // Its configuration is the server's.
    wait_for("the node of the server", TEST_TIMEOUT, async || {
        let all = nodes().await;
        let zone = all.first().map(|one| one["labels"]["zone"].clone());
        same(zone, &Some(json!("pci")))
    })
    .await;
    let granted = [
        "--label",
        "zone=dmz",
        "--label",
        "node-restriction.strata.dev/pci=no",
    ];
    for (name, words, zone, disk) in [
        ("given", &granted[..], json!("dmz"), Value::Null),
        ("accepted", &["--accept-labels"], json!("pci"), json!("ssd")),
        ("plain", &[], Value::Null, Value::Null),
    ] {
        let words = [&["token", "create", "--join", "-q", "--name", name], words].concat();
        let token = cli.run(words).await.ok();
        let node = Daemon::build(STRATA)
            .role("node")
            .config(LABELLED)
            .arg("--server")
            .arg(server.endpoints().server.unwrap())
            .arg("--join-token")
            .arg(token.trim())
            .arg("--name")
            .arg(name)
            .start()
            .await;
        let labels = wait_for("the node to be ready", TEST_TIMEOUT, async || {
            let all = nodes().await;
            let found = all.iter().find(|one| one["name"] == name).cloned();
            match found {
                Some(found) if found["status"] == "READY" => Ok(found["labels"].clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert_eq!((&labels["zone"], &labels["disk"]), (&zone, &disk), "{name}");
        drop(node);
    }
}
