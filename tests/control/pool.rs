//! An instance moves with its data, between nodes that reach the same pool.

use strata_testkit::cluster::Cluster;
use strata_testkit::pool::TestPool;
use strata_testkit::serde_json::{Value, json};

use crate::control::STRATA;

fn is(state: &'static str) -> impl Fn(&Value) -> bool {
    move |one| one["status"] == state
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_takes_its_data_along() {
    let pool = TestPool::unmounted();
    let config = format!("[images]\nhigh_water = 100\n{}", pool.config());
    let cluster = Cluster::build(STRATA).node_config(&config).start().await;
    let rest = cluster.rest();
    let script = "trap exit TERM; while :; do sleep 60 & wait; done";
    let web = json!({
        "name": "web",
        "uri": cluster.image,
        "environment": [format!("SCRIPT={script}")],
        "volumes": ["pool=data:/data"],
    });
    let made = rest.call("PUT", "/instance", web).await;
    let made: Value = strata_testkit::serde_json::from_str(&made.body).unwrap();
    let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}"));
    // Nobody reaches the pool yet, and then nobody has the volume.
    let failed = cluster.instance_until(id, is("FAILED")).await;
    let why = failed["description"].as_str().unwrap_or_default();
    assert!(why.contains("does not reach the storage pool"), "{failed}");
    pool.mount();
    let lacks = |one: &Value| {
        let said = one["description"].as_str().unwrap_or_default();
        said.contains("there is no volume data in the pool")
    };
    cluster.instance_until(id, lacks).await;
    pool.volume("data");
    cluster.instance_until(id, is("RUNNING")).await;
    let (first, pod) = cluster.place(id).await;
    let name = pod.spec.unwrap().name;
    let node = cluster.nodes[first].node().await;
    node.says(&name, "echo kept > /data/file").await;
    // It goes, and what it wrote is there.
    let path = format!("/node/n{}", first + 1);
    rest.patch(&path, json!({ "draining": true })).await;
    let moved =
        |one: &Value| one["status"] == "RUNNING" && one["node"] != format!("n{}", first + 1);
    cluster.instance_until(id, moved).await;
    let (second, pod) = cluster.place(id).await;
    assert_eq!(second, 1 - first);
    let node = cluster.nodes[second].node().await;
    let name = pod.spec.unwrap().name;
    assert_eq!(node.says(&name, "cat /data/file").await, "kept");
}
