//! Cancelling undoes an operation: it takes what beginning it took.

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{serde_json, wait_for};

use super::project_world::{Caller, STRATA, run, script};
use strata_testkit::cluster::TEST_TIMEOUT;

/// A node that is drained and has an instance which fits nowhere else: the
/// operation goes on until it is cancelled.
async fn drain(cluster: &Cluster, leave: bool) -> String {
    let body = json!({ "leave": leave });
    let begun = cluster.rest().call("POST", "/node/n1/drain", body).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let begun: Value = serde_json::from_str(&begun.body).unwrap();
    format!("/operation/{}", begun["id"].as_str().unwrap())
}

async fn until(cluster: &Cluster, path: &str, status: &str) {
    wait_for("the operation", TEST_TIMEOUT, async || {
        let now = cluster.rest().get(path).await;
        match now["status"] == status {
            true => Ok(()),
            false => Err(now.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_does_not_cancel_what_only_an_admin_begins() {
    let cluster = Cluster::start(STRATA, 1).await;
    run(&cluster, script(&cluster, "default", "stays", "sleep 1000")).await;
    let operator = Caller::new(&cluster, "operator", &[]).await;
    let viewer = Caller::new(&cluster, "viewer", &[]).await;
    let limited = Caller::new(&cluster, "operator", &["default"]).await;
    // The same name as that of the admin who begins it proves nothing.
    let words = ["token", "create", "--name", "admin", "--role", "operator"];
    cluster.cli().run(words).await.ok();

    let path = drain(&cluster, true).await;
    until(&cluster, &path, "ACTIVE").await;
    for caller in [&operator, &viewer, &limited] {
        let answer = caller.call("DELETE", &path, Value::Null).await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    until(&cluster, &path, "ACTIVE").await;
    let answer = cluster.rest().call("DELETE", &path, Value::Null).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    until(&cluster, &path, "FAILED").await;

    // What an operator may begin, an operator may cancel.
    let path = drain(&cluster, false).await;
    until(&cluster, &path, "ACTIVE").await;
    let answer = operator.call("DELETE", &path, Value::Null).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    until(&cluster, &path, "FAILED").await;
}
