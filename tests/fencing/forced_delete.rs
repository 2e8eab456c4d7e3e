//! An instance whose node does not come back, and that is deleted: it can be
//! forced to go, and the node that comes back nevertheless destroys it.

use std::time::Duration;

use strata_testkit::cluster::TEST_TIMEOUT;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, holds, wait_for};

use super::{cluster, node_of, pass};

#[tokio::test(flavor = "multi_thread")]
async fn instance_that_does_not_go_is_deleted_by_force_and_destroyed_when_its_node_is_back() {
    // The only node: its lease is waived, so the instance goes on there.
    let cluster = cluster(5, 1).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    assert_eq!(node_of(&cluster, "web").await, 0);
    let rest = cluster.rest();
    let forced = "/instance/id-web?force=true";
    let early = rest.call("DELETE", forced, json!(null)).await;
    assert_eq!(early.status, 409, "it is not being deleted: {early:?}");
    cluster.cut(0);
    cluster.node_is("n1", "LOST").await;
    let deleted = rest.call("DELETE", "/instance/id-web", json!(null)).await;
    assert_eq!(deleted.status, 202, "{deleted:?}");
    pass(Duration::from_secs(2)).await;
    let one = rest.get("/instance/id-web").await;
    assert_eq!(one["status"], "DESTROYING", "its node has it: {one}");
    let gone = rest.call("DELETE", forced, json!(null)).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    let asked = rest.call("GET", "/instance/id-web", json!(null)).await;
    assert_eq!(asked.status, 404, "{asked:?}");
    ledger.assert_running("web").await;
    cluster.heal(0);
    cluster.node_is("n1", "READY").await;
    wait_for("it to be destroyed", TEST_TIMEOUT, async || {
        holds(ledger.is_silent("web"))
    })
    .await;
    cluster.settles(&[], &[]).await;
    assert_eq!(ledger.runs("web").len(), 1);
}
