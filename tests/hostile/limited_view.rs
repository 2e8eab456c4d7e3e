//! Callers who are limited to projects learn nothing of nodes, machines,
//! clusters and instances of others: by events, by descriptions, by
//! explanations.

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{serde_json, wait_for};

use super::project_world::{Caller, STRATA, project, run, script};

#[tokio::test(flavor = "multi_thread")]
async fn events_and_explanations_name_nothing_of_others() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let mut holder = script(&cluster, "default", "holder", "sleep 1000");
    holder["ports"] = json!(["8080:80"]);
    run(&cluster, holder).await;
    run(&cluster, script(&cluster, "shop", "own", "sleep 1000")).await;
    // It wants what the other has, and so fits nowhere.
    let mut wants = script(&cluster, "shop", "wants", "sleep 1000");
    wants["ports"] = json!(["8080:80"]);
    let made = cluster.rest().call("PUT", "/instance", wants).await;
    assert!(made.status < 300, "{made:?}");
    let failed = |one: &Value| one["status"] == "FAILED";
    let full = cluster.instance_until("id-wants", failed).await;
    let full = full["description"].as_str().unwrap();
    assert!(full.contains("n1"), "an admin is told all: {full}");

    let viewer = Caller::new(&cluster, "viewer", &["shop"]).await;
    let operator = Caller::new(&cluster, "operator", &["shop"]).await;
    for caller in [&viewer, &operator] {
        let events = caller.call("GET", "/event?limit=1000", Value::Null).await;
        assert_eq!(events.status, 200, "{events:?}");
        let list: Vec<Value> = serde_json::from_str(&events.body).unwrap();
        assert!(list.iter().any(|one| one["name"] == "own"), "{list:?}");
        for one in &list {
            assert_eq!(one["project"], "shop", "{one}");
        }
        let mut texts = vec![("events", events.body)];
        for path in [
            "/instance/id-wants",
            "/instance?project=shop&state=FAILED",
            "/instance/id-wants/placement",
        ] {
            let answer = caller.call("GET", path, Value::Null).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            texts.push((path, answer.body));
        }
        for kind in ["node", "machine", "cluster"] {
            let path = format!("/event?kind={kind}");
            let answer = caller.call("GET", &path, Value::Null).await;
            assert_eq!(answer.body, "[]", "{kind}");
        }
        for (way, text) in &texts {
            for secret in ["n1", "holder", "registered with"] {
                assert!(!text.contains(secret), "{way} tells {secret}: {text}");
            }
        }
        assert!(texts[1].1.contains("8080"), "why is told: {}", texts[1].1);
    }
    // A new node is no news for them, and is for others.
    let mut cluster = cluster;
    cluster.add_node().await;
    let all = cluster.rest().get("/event?kind=node").await;
    assert!(all.to_string().contains("n2"), "{all}");
    wait_for("nothing of it", TEST_TIMEOUT, async || {
        let events = viewer.call("GET", "/event?limit=1000", Value::Null).await;
        match events.body.contains("n2") {
            false => Ok(()),
            true => Err(events.body),
        }
    })
    .await;
}
