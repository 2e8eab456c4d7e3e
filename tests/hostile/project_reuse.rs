//! The name of a deleted project is used again: what was that one's is not the
//! next one's, neither its data nor its callers.

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::wait_for;

use super::project_world::{Caller, STRATA, project, run, script};

/// An instance with a volume of its node.
fn with_volume(cluster: &Cluster, name: &str) -> Value {
    let mut instance = script(cluster, "shop", name, "sleep 1000");
    instance["volumes"] = json!(["data:/data"]);
    instance
}

/// What a command in an instance prints.
async fn prints(cluster: &Cluster, name: &str, command: &str) -> String {
    let command = json!({ "command": ["/bin/busybox", "sh", "-c", command] });
    let path = format!("/instance/id-{name}/exec");
    let answer = cluster.rest().call("POST", &path, command).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn project_of_a_name_that_was_used_before_inherits_nothing() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    run(&cluster, with_volume(&cluster, "old")).await;
    prints(&cluster, "old", "echo card-numbers > /data/secret").await;
    let before = Caller::new(&cluster, "operator", &["shop"]).await;
    let seen = before.call("GET", "/instance", Value::Null).await;
    assert!(seen.body.contains("id-old"), "{seen:?}");

    let rest = cluster.rest();
    let open = json!({ "name": "peer", "allowFrom": ["shop", "default"] });
    project(&cluster, open).await;
    let deleted = rest.call("DELETE", "/instance/id-old", Value::Null).await;
    assert!(deleted.status < 300, "{deleted:?}");
    wait_for("the project to be empty", TEST_TIMEOUT, async || {
        let deleted = rest.call("DELETE", "/project/shop", Value::Null).await;
        match deleted.status < 300 {
            true => Ok(()),
            false => Err(deleted.body),
        }
    })
    .await;
    // The next of that name is not the one that was allowed to reach others.
    let peer = rest.get("/project/peer").await;
    assert_eq!(peer["allowFrom"], json!(["default"]), "{peer}");
    project(&cluster, json!({ "name": "shop" })).await;
    run(&cluster, with_volume(&cluster, "new")).await;
    let found = prints(&cluster, "new", "ls -A /data").await;
    assert!(!found.contains("secret"), "{found}");

    for (method, path) in [("GET", "/instance"), ("DELETE", "/instance/id-new")] {
        let refused = before.call(method, path, Value::Null).await;
        assert_eq!(refused.status, 401, "{refused:?}");
    }
    let after = Caller::new(&cluster, "operator", &["shop"]).await;
    let seen = after.call("GET", "/instance", Value::Null).await;
    assert!(seen.body.contains("id-new"), "{seen:?}");
    // Nor is what happened in the former project for its callers.
    let all = rest.get("/event?project=shop&limit=1000").await;
    assert!(all.to_string().contains("id-old"), "{all}");
    let events = after.call("GET", "/event?limit=1000", Value::Null).await;
    assert!(events.body.contains("id-new"), "{events:?}");
    assert!(!events.body.contains("id-old"), "{events:?}");
}
