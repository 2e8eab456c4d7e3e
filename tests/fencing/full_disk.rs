//! A node whose disk is full is neither a reason to run something twice nor to
//! destroy what it has: what is stopped there is stopped, and what is started
//! again waits for room.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, SmallDisk, holds, wait_for};

use super::{STRATA, node_of, pass};

#[tokio::test(flavor = "multi_thread")]
async fn instance_on_a_full_disk_is_stopped_and_started_where_it_is() {
    let disk = SmallDisk::new(192 << 20);
    let config = "[scheduler]\nlease_seconds = 10\npolicy = \"spread\"\n";
    let mut cluster = Cluster::build(STRATA)
        .server_config(config)
        .nodes(1)
        .start()
        .await;
    cluster.add_node_on(&disk.path()).await;
    let ledger = Ledger::new();
    let rather = json!([{ "test": "node=n2", "weight": 100_000 }]);
    let rather = json!({ "placement": { "preferences": rather }, "stopGraceSeconds": 1 });
    ledger.create(&cluster, "web", rather).await;
    assert_eq!(node_of(&cluster, "web").await, 1);
    pass(Duration::from_secs(2)).await;
    let filling = disk.fill_but(0);
    let rest = cluster.rest();
    let path = "/instance/id-web";
    rest.patch(path, json!({ "status": "STOPPED" })).await;
    wait_for("it to be stopped", TEST_TIMEOUT, async || {
        let one = rest.get(path).await;
        holds(one["status"] == "STOPPED" && ledger.is_silent("web")).map_err(|_| one.to_string())
    })
    .await;
    assert_eq!(node_of(&cluster, "web").await, 1, "it has its files there");
    rest.patch(path, json!({ "status": "RUNNING" })).await;
    // It runs there, or is tried again there; it goes nowhere else.
    pass(Duration::from_secs(5)).await;
    assert_eq!(
        node_of(&cluster, "web").await,
        1,
        "{}",
        rest.get(path).await
    );
    std::fs::remove_file(filling).unwrap();
    cluster.settles(&["id-web"], &[]).await;
    ledger.run("web", 2).await;
    assert_eq!(node_of(&cluster, "web").await, 1);
    ledger.assert_exclusive(&["web"]);
}
