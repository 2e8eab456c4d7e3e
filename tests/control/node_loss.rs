//! Nodes that die, are cut off, and come back.

use std::time::{Duration, Instant};

use strata_testkit::cluster::Cluster;
use strata_testkit::v1::{Pod, PodState};
use strata_testkit::{holds, wait_for};

use crate::control::{STRATA, TEST_TIMEOUT, cluster};

/// Runs one instance, cuts its node off, and tells how long it took until it
/// ran elsewhere. By then it had ended where it was.
async fn moved(cluster: &Cluster) -> Duration {
    let mut updates = cluster.run(cluster.instance("it")).await;
    let (from, _) = cluster.place("id-it").await;
    let begin = Instant::now();
    cluster.cut(from);
    let there = cluster.nodes[1 - from].name.clone();
    wait_for("it to run elsewhere", TEST_TIMEOUT, async || {
        let pods = cluster.pods_on(1 - from).await;
        let runs = pods.get("id-it").map(Pod::state) == Some(PodState::Running);
        holds(runs).map_err(|_| format!("{pods:?}"))
    })
    .await;
    let took = begin.elapsed();
    let (old, new) = (cluster.pods_on(from).await, cluster.pods_on(1 - from).await);
    let (old, new) = (&old["id-it"], &new["id-it"]);
    assert_eq!(old.state(), PodState::Stopped, "{old:?}");
    assert!(old.ended_at_ms <= new.started_at_ms, "{old:?} {new:?}");
    updates.until_running().await;
    // It is back, and nothing is doubled.
    cluster.heal(from);
    cluster.followed(from, 2).await;
    let running = cluster.settles(&["id-it"], &[]).await;
    assert_eq!(running["id-it"], [there]);
    took
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn a_node_that_is_cut_off_stops_what_runs_elsewhere() {
    let cluster = cluster(2).await;
    let took = moved(&cluster).await;
    eprintln!("cut to RUNNING elsewhere with a lease of 3 s: {took:?}");
    assert!(took > Duration::from_millis(2500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn lease_is_ten_seconds_by_default() {
    let cluster = Cluster::build(STRATA).server_config("").start().await;
    let took = moved(&cluster).await;
    eprintln!("cut to RUNNING elsewhere with a lease of 10 s: {took:?}");
    assert!(took > Duration::from_millis(9500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_survives_its_node_daemon_and_is_reported_again() {
    // Longer than a restart takes on a machine that is busy with other tests.
    let config = "[scheduler]\nlease_seconds = 30\npolicy = \"spread\"\n";
    let mut cluster = Cluster::build(STRATA).server_config(config).start().await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        cluster.run(cluster.instance(name)).await;
    }
    let ids = names.map(|name| format!("id-{name}"));
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let before = cluster.settles(&ids, &[]).await;
    let pods = cluster.pods_on(0).await;
    for (times, clean) in [(2, false), (3, true)] {
        match clean {
            true => drop(cluster.nodes[0].daemon.terminate().await),
            false => cluster.nodes[0].daemon.kill(),
        }
        cluster.nodes[0].daemon.restart().await;
        cluster.followed(0, times).await;
        assert_eq!(cluster.settles(&ids, &[]).await, before);
        for (id, pod) in cluster.pods_on(0).await {
            assert_eq!(pod.process_id, pods[&id].process_id, "{id}");
        }
    }
    // The server can still do something with each.
    for id in &ids {
        cluster.stop(id).await.unwrap();
    }
    cluster.settles(&[], &ids).await;
    for id in &ids {
        cluster.start_again(id).await.unwrap();
    }
    assert_eq!(cluster.settles(&ids, &[]).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_dead_node_are_rescheduled_and_not_restarted_there() {
    let mut cluster = cluster(2).await;
    cluster.run(cluster.instance("a")).await;
    cluster.run(cluster.instance("b")).await;
    let (at, _) = cluster.place("id-a").await;
    // The daemon alone: its shim ends its pods with the lease.
    cluster.nodes[at].daemon.kill();
    let other = cluster.nodes[1 - at].name.clone();
    wait_for("both to run on the other node", TEST_TIMEOUT, async || {
        let running = cluster.running().await;
        let all = ["id-a", "id-b"].iter();
        holds(
            all.clone()
                .all(|id| running.get(*id) == Some(&vec![other.clone()])),
        )
        .map_err(|_| format!("{running:?}"))
    })
    .await;
    cluster.nodes[at].daemon.restart().await;
    cluster.followed(at, 2).await;
    let running = cluster.settles(&["id-a", "id-b"], &[]).await;
    assert_eq!(running["id-a"], [other]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_that_comes_back_settles_with_what_it_had() {
    let cluster = cluster(1).await;
    for name in ["a", "b", "c"] {
        cluster.run(cluster.instance(name)).await;
    }
    let ids = ["id-a", "id-b", "id-c"];
    cluster.cut(0);
    cluster.node_is("n1", "LOST").await;
    cluster.heal(0);
    cluster.node_is("n1", "READY").await;
    for id in ids {
        cluster
            .instance_until(id, |one| one["status"] == "RUNNING")
            .await;
    }
    cluster.settles(&ids, &[]).await;
    // It is not given and taken for ever.
    let before = cluster.pods_on(0).await;
    let begin = Instant::now();
    wait_for("a while", TEST_TIMEOUT, async || {
        for (id, pod) in cluster.pods_on(0).await {
            assert_eq!(pod.process_id, before[&id].process_id, "{id}");
        }
        holds(begin.elapsed() > Duration::from_secs(2))
    })
    .await;
}
