//! What a node keeps on disk is emptied, as a loss of power does it with files
//! that were not synced: nothing runs twice for it, and nothing runs on past
//! its lease.

use std::path::PathBuf;
use std::time::Duration;

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time};

use super::{cluster, failover, node_of, pass};

/// Every record of assignments that a node has on disk.
fn records(cluster: &Cluster, node: usize) -> Vec<PathBuf> {
    let data = cluster.nodes[node].daemon.data_dir();
    let found = std::fs::read_dir(data.join("node/assignments")).unwrap();
    let paths = found.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn emptied_assignments_and_lease_of_a_node_that_is_cut_off_leave_no_second_run() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(2)).await;
    let begin = boot_time();
    cluster.cut(at);
    cluster.nodes[at].daemon.kill();
    let emptied = records(&cluster, at);
    assert!(
        emptied.len() >= 2,
        "the lease and the assignment: {emptied:?}"
    );
    for path in emptied {
        std::fs::write(path, "").unwrap();
    }
    cluster.nodes[at].daemon.restart().await;
    failover(&ledger, "web", begin, 5).await;
    pass(Duration::from_secs(2)).await;
    ledger.assert_exclusive(&["web"]);
    cluster.heal(at);
    cluster.settles(&["id-web"], &[]).await;
    pass(Duration::from_secs(2)).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn emptied_record_of_a_pod_costs_a_restart_and_never_doubles_it() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(2)).await;
    cluster.nodes[at].daemon.kill();
    let data = cluster.nodes[at].daemon.data_dir();
    let pods = std::fs::read_dir(data.join("node/_pods/records")).unwrap();
    let pods: Vec<_> = pods.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(pods.len(), 1, "{pods:?}");
    std::fs::write(&pods[0], "").unwrap();
    cluster.nodes[at].daemon.restart().await;
    ledger.run("web", 2).await;
    pass(Duration::from_secs(2)).await;
    ledger.assert_exclusive(&["web"]);
    ledger.assert_running("web").await;
}
