//! A server that starts without its records: nothing on any node is destroyed,
//! and nothing is started twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_testkit::cluster::Cluster;
use strata_testkit::v1::PodState;
use strata_testkit::{holds, wait_for};
use tokio_util::task::AbortOnDropHandle;

use crate::control::{TEST_TIMEOUT, cluster};

/// How often all pods are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What was seen of each pod since it was begun to watch: a process id for
/// each run, and every state that is not running.
type TracedCalls = Arc<std::sync::Mutex<BTreeMap<String, Vec<String>>>>;

/// Watches all pods the whole time.
fn watch(cluster: &Arc<Cluster>) -> (TracedCalls, AbortOnDropHandle<()>) {
    let seen = TracedCalls::default();
    let (cluster, notes) = (cluster.clone(), seen.clone());
    let watching = tokio::spawn(async move {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            looks.tick().await;
            for node in 0..cluster.nodes.len() {
                for (id, pod) in cluster.pods_on(node).await {
                    let what = match pod.state() {
                        PodState::Running => format!("n{} {}", node + 1, pod.process_id),
                        other => format!("n{} {other:?}", node + 1),
                    };
                    let mut notes = notes.lock().unwrap();
                    let of = notes.entry(id).or_default();
                    if of.last() != Some(&what) {
                        of.push(what);
                    }
                }
            }
        }
    });
    (seen, AbortOnDropHandle::new(watching))
}

async fn unknown_on(cluster: &Cluster, node: &str) -> Vec<String> {
    let shown = cluster.node_is(node, "READY").await;
    let all = shown["unknownInstances"].as_array();
    let ids = all.into_iter().flatten().map(|one| one["id"].as_str());
    ids.map(|id| id.unwrap().to_owned()).collect()
}

fn swap(data: &Path, from: &str, to: &str) {
    std::fs::rename(data.join(from), data.join(to)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_store_destroys_nothing() {
    let mut cluster = cluster(2).await;
    for name in ["a", "b"] {
        cluster.run(cluster.instance(name)).await;
    }
    let before = cluster.settles(&["id-a", "id-b"], &[]).await;
    let data = cluster.server.data_dir();
    cluster.server.terminate().await;
    swap(&data, "store", "store.right");

    // Its disk is not mounted: it says so, and makes nothing.
    let refused = cluster.server.try_restart().await.unwrap_err();
    assert!(refused.contains("no records in"), "{refused}");
    assert!(refused.contains("--new-store"), "{refused}");
    assert!(!data.join("store").exists(), "no store was made");
    // A file of nothing is no store either.
    std::fs::create_dir(data.join("store")).unwrap();
    std::fs::write(data.join("store/store.redb"), "").unwrap();
    let refused = cluster.server.try_restart().await.unwrap_err();
    assert!(refused.contains("no records in"), "{refused}");
    std::fs::remove_dir_all(data.join("store")).unwrap();

    // People insist.
    cluster.server.add_argument("--new-store");
    cluster.server.restart().await;
    let mut cluster = Arc::new(cluster);
    let (seen, watching) = watch(&cluster);
    wait_for("what is unknown to be shown", TEST_TIMEOUT, async || {
        let mut unknown = unknown_on(&cluster, "n1").await;
        unknown.extend(unknown_on(&cluster, "n2").await);
        unknown.sort();
        holds(unknown == ["id-a", "id-b"]).map_err(|_| format!("{unknown:?}"))
    })
    .await;
    // The new one places its own beside.
    cluster.run(cluster.instance("c")).await;
    assert_eq!(cluster.running().await.len(), 3);
    drop(watching);
    wait_for("the watcher to end", TEST_TIMEOUT, async || {
        holds(Arc::strong_count(&cluster) == 1)
    })
    .await;

    // The right one is back.
    let owned = Arc::get_mut(&mut cluster).unwrap();
    owned.server.terminate().await;
    swap(&data, "store", "store.wrong");
    swap(&data, "store.right", "store");
    owned.server.restart().await;
    let (again, watching) = watch(&cluster);
    for node in ["n1", "n2"] {
        cluster.node_is(node, "READY").await;
    }
    for id in ["id-a", "id-b"] {
        cluster
            .instance_until(id, |one| one["status"] == "RUNNING")
            .await;
    }
    let after = cluster.running().await;
    assert_eq!(
        (&after["id-a"], &after["id-b"]),
        (&before["id-a"], &before["id-b"])
    );
    // What only the other one knew is of another control plane here.
    assert!(after.contains_key("id-c"));
    drop(watching);
    for seen in [&seen, &again] {
        let seen = seen.lock().unwrap();
        for id in ["id-a", "id-b"] {
            assert_eq!(
                seen[id].len(),
                1,
                "it was one process all the time: {seen:?}"
            );
        }
    }
    assert_eq!(seen.lock().unwrap()["id-a"], again.lock().unwrap()["id-a"]);
    for (number, name) in [("n1", "node"), ("n2", "node")] {
        let words = [name, "forget", number, "--yes"];
        cluster.cli().run(words).await.ok();
    }
    cluster.settles(&["id-a", "id-b"], &[]).await;
}
