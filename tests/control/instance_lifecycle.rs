//! The life of an instance, as the published scheduler tells it.

use strata_testkit::scheduler::Status::{
    Destroying, Running, Scheduled, Scheduling, Starting, Stopped, Stopping, Terminated,
};
use strata_testkit::scheduler::{Resource, ResourceSummary};
use strata_testkit::{Code, refused, wait_for};

use crate::control::{TEST_TIMEOUT, cluster};

#[tokio::test(flavor = "multi_thread")]
async fn watch_reports_every_state_of_an_instance() {
    let cluster = cluster(1).await;
    let mut wanted = cluster.script(
        "busy",
        "trap exit TERM; echo kept > /kept; i=0; while :; do i=$((i+1)); done",
    );
    let limit = ResourceSummary {
        cpu: 200,
        memory: 64,
        disk: 1,
    };
    wanted.resource = Some(Resource {
        limit: Some(limit),
        usage: None,
    });
    let mut updates = cluster.create(wanted.clone()).await.unwrap();
    let running = updates.until_running().await;
    assert_eq!(
        updates.states(),
        [Scheduling, Scheduled, Starting, Running],
        "{:?}",
        updates.seen
    );
    assert_eq!(updates.seen[1].1, "on node n1");
    assert_eq!(running.id, "id-busy");
    assert_eq!(running.resource.unwrap().limit, Some(limit));
    // What it uses is measured, while it runs.
    let used = updates
        .until(|update| {
            let usage = update.resource.and_then(|resource| resource.usage);
            usage.is_some_and(|usage| usage.cpu > 50)
        })
        .await;
    assert_eq!(used.status(), Running);
    let usage = used.resource.unwrap().usage.unwrap();
    assert!(usage.cpu <= 400, "{usage:?}");
    let (_, pod) = cluster.place("id-busy").await;

    // Stopped and started, it has the same files.
    cluster.stop("id-busy").await.unwrap();
    updates.until_state(Stopped).await;
    cluster.stop("id-busy").await.unwrap();
    cluster.settles(&[], &["id-busy"]).await;
    cluster.start_again("id-busy").await.unwrap();
    updates.until_running().await;
    cluster.start_again("id-busy").await.unwrap();
    let states = updates.states();
    assert_eq!(
        states[states.len() - 4..],
        [Stopping, Stopped, Starting, Running],
        "{:?}",
        updates.seen
    );
    let (node, again) = cluster.place("id-busy").await;
    assert_eq!((&again.id, &again.address), (&pod.id, &pod.address));
    let name = again.spec.unwrap().name;
    let node = cluster.nodes[node].node().await;
    assert_eq!(node.says(&name, "cat /kept").await, "kept");

    // Whoever hangs up destroys nothing; the same request attaches again.
    drop(updates);
    let mut updates = cluster.create(wanted).await.unwrap();
    assert_eq!(updates.next().await.unwrap().unwrap().status(), Running);
    cluster.settles(&["id-busy"], &[]).await;

    cluster.destroy("id-busy").await.unwrap();
    let seen = updates.to_end().await;
    let states: Vec<_> = seen.iter().map(|(state, _)| *state).collect();
    assert_eq!(
        states[states.len() - 2..],
        [Destroying, Terminated],
        "{seen:?}"
    );
    cluster.settles(&[], &[]).await;
    // A caller that repeats the call finds it done.
    cluster.destroy("id-busy").await.unwrap();
    for gone in [
        cluster.stop("id-busy").await,
        cluster.start_again("id-busy").await,
    ] {
        refused(gone, Code::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_of_an_instance_is_reported() {
    let cluster = cluster(1).await;
    // Well.
    let ended = cluster.create(cluster.script("well", "exit 0")).await;
    let seen = ended.unwrap().to_end().await;
    assert_eq!(
        seen.last().unwrap(),
        &(Terminated, "exit 0".into()),
        "{seen:?}"
    );
    // Badly: it is said, and started again, each time later.
    use strata_testkit::scheduler::Status::Failed;
    let mut crash = cluster
        .create(cluster.script("crash", "sleep 0.3; exit 3"))
        .await
        .unwrap();
    for _ in 0..2 {
        crash.until_running().await;
        let told = crash.until_state(Failed).await;
        assert!(
            told.status_description.starts_with("crashed: exit 3"),
            "{told:?}"
        );
    }
    let pod = wait_for("a restart", TEST_TIMEOUT, async || {
        let (_, pod) = cluster.place("id-crash").await;
        match pod.restarts >= 2 {
            true => Ok(pod),
            false => Err(format!("{pod:?}")),
        }
    })
    .await;
    assert!(pod.next_start_at_ms == 0 || pod.next_start_at_ms - pod.ended_at_ms >= 1900);
    // Deleted, it is not started again.
    cluster.destroy("id-crash").await.unwrap();
    let seen = crash.to_end().await;
    assert_eq!(seen.last().unwrap().0, Terminated, "{seen:?}");
    cluster.settles(&[], &["id-well"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_instance_reports_the_reason() {
    use strata_testkit::scheduler::Status::Failed;
    let cluster = cluster(1).await;
    let mut missing = cluster.instance("missing");
    missing.uri = "oci:/nowhere/at/all:v1".into();
    // Both are tried again, and say so: the stream goes on.
    let mut missing = cluster.create(missing).await.unwrap();
    let failed = missing.until_state(Failed).await;
    let why = &failed.status_description;
    assert!(
        why.contains("/nowhere/at/all") && why.contains("again"),
        "{why}"
    );
    let mut large = cluster.instance("large");
    large.resource = Some(Resource {
        limit: Some(ResourceSummary {
            cpu: 1_000_000,
            ..ResourceSummary::default()
        }),
        usage: None,
    });
    let mut large = cluster.create(large).await.unwrap();
    let why = large.until_state(Failed).await.status_description;
    assert!(
        why.contains("cpu") && why.ends_with("; tried again"),
        "{why}"
    );
    cluster.destroy("id-large").await.unwrap();
    cluster.destroy("id-missing").await.unwrap();
    for updates in [large, missing] {
        let seen = updates.to_end().await;
        assert_eq!(seen.last().unwrap().0, Terminated, "{seen:?}");
    }
    cluster.settles(&[], &[]).await;
}
