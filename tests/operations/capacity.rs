//! A host is counted once, however many nodes are on it.

use strata_testkit::serde_json::{Value, json};

use crate::operations::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_and_its_machines_are_counted_once() {
    let world = World::start("").await;
    let nodes = world.rest().get("/node").await;
    let (own, cpu) = (
        nodes[0]["name"].as_str().unwrap().to_owned(),
        nodes[0]["capacity"]["cpu"].as_u64().unwrap(),
    );
    world.done("/hypervisor/local-1/create", Value::Null).await;
    let on = |node: &str, cpu: u64| {
        json!({
            "environment": ["SCRIPT=trap exit TERM; while :; do sleep 1; done"],
            "resources": { "cpu": cpu },
            "placement": { "constraints": [format!("node={node}")] },
        })
    };
    let big = world.instance("big", on(&own, cpu - 100)).await;
    world.runs(&big, Some(&own)).await;
    // The machine is empty, and its host is not.
    let small = world.instance("small", on("local-1", 200)).await;
    let path = format!("/instance/{small}");
    let refused = |one: &Value| {
        let why = one["description"].as_str().unwrap_or_default();
        one["node"].is_null() && why.contains("its host")
    };
    world.until(&path, refused).await;
    let answer = world
        .rest()
        .call("DELETE", &format!("/instance/{big}"), Value::Null)
        .await;
    assert_eq!(answer.status, 202, "{answer:?}");
    world.until(&path, |one| one["node"] == "local-1").await;
    // And the other way round.
    let big = world.instance("big-again", on(&own, cpu - 100)).await;
    let path = format!("/instance/{big}");
    world.until(&path, refused).await;
}
