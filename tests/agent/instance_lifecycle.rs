//! An instance from the first to the last.

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{Assignment, Pod, PodSpec, PodState};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::{never, run, stopped, world};

#[tokio::test(flavor = "multi_thread")]
async fn instance_runs_stops_starts_is_replaced_and_deleted() {
    let mut world = world().await;
    let server = world.followed().await;
    let node = &world.node;
    node.run_pod(idle("mine", &world.image)).await.unwrap();

    let first = run("i-1", idle("web", &world.image));
    server.assign(&first).await;
    let report = server.becomes("i-1", PodState::Running).await;
    assert!(report.address.starts_with("10.42.77."), "{report:?}");
    assert_eq!(report.generation, 1);
    assert_eq!(node.pod("web").await.unwrap().address, report.address);
    node.sh("web", "echo kept > /srv/file").await.unwrap().ok();

    server.assign(&stopped(&first)).await;
    server.becomes("i-1", PodState::Stopped).await;
    server.assign(&first).await;
    server.becomes("i-1", PodState::Running).await;
    assert_eq!(node.sh("web", "cat /srv/file").await.unwrap().ok(), "kept");

    let second = Assignment {
        generation: 2,
        ..run(
            "i-1",
            PodSpec {
                environment: vec!["NEXT=yes".into()],
                ..idle("web", &world.image)
            },
        )
    };
    server.assign(&second).await;
    let next = server
        .until("i-1", |report| {
            report.generation == 2 && report.state() == PodState::Running
        })
        .await;
    assert_eq!(next.address, report.address);
    let said = node.sh("web", "echo $NEXT; cat /srv/file || true").await;
    assert_eq!(said.unwrap().ok(), "yes", "it is another one");

    server.withdraw("i-1").await;
    server.becomes("i-1", PodState::Unspecified).await;
    let left: Vec<_> = node.pods().await.unwrap();
    let names: Vec<_> = left
        .iter()
        .map(|pod| pod.spec.as_ref().unwrap().name.as_str())
        .collect();
    assert_eq!(names, ["mine"]);
    // Of one that never was, the same is said.
    server.withdraw("never").await;
    server.becomes("never", PodState::Unspecified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exited_instance_is_reported_and_restarted_on_request() {
    let mut world = world().await;
    let server = world.followed().await;
    let job = run("job", never(script("job", &world.image, "exit 3")));
    server.assign(&job).await;
    let report = server.becomes("job", PodState::Exited).await;
    assert_eq!(report.exit_code, Some(3));
    let first = world.node.pod("job").await.unwrap().started_at_ms;
    // Said again, it is not done again.
    server.assign(&job).await;
    let again = Assignment {
        starts: 1,
        ..job.clone()
    };
    server.assign(&again).await;
    let ran_again = |pod: &Pod| pod.started_at_ms > first && pod.state() == PodState::Exited;
    let second = world.node.pod_until("job", ran_again).await.started_at_ms;
    server.assign(&again).await;
    let last = Assignment {
        generation: 2,
        ..run("job", never(script("job", &world.image, "exit 0")))
    };
    assert_eq!(world.node.pod("job").await.unwrap().started_at_ms, second);
    server.assign(&last).await;
    let report = server
        .until("job", |r| {
            r.generation == 2 && r.state() == PodState::Exited
        })
        .await;
    assert_eq!(report.exit_code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn destroyed_unit_of_an_assignment_is_recreated() {
    let mut world = world().await;
    let server = world.followed().await;
    server.assign(&run("i", idle("web", &world.image))).await;
    server.becomes("i", PodState::Running).await;
    let first = world.node.pod("web").await.unwrap().id;
    world.node.destroy_pod("web").await.unwrap();
    let node = &world.node;
    wait_for("another", TEST_TIMEOUT, async || {
        let pod = node.pod("web").await.map_err(|e| e.to_string())?;
        let other = pod.id != first && pod.state() == PodState::Running;
        holds(other)
    })
    .await;
    server.becomes("i", PodState::Running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_worked_on_at_the_same_time() {
    let mut world = world().await;
    let server = world.followed().await;
    for n in 0..40 {
        let pod = idle(&format!("web-{n}"), &world.image);
        server.assign(&run(&format!("i-{n}"), pod)).await;
    }
    let mut addresses = std::collections::HashSet::new();
    for n in 0..40 {
        let report = server.becomes(&format!("i-{n}"), PodState::Running).await;
        assert!(addresses.insert(report.address));
    }
    server.complete().await;
    for n in 0..40 {
        server.withdraw(&format!("i-{n}")).await;
    }
    for n in 0..40 {
        server
            .becomes(&format!("i-{n}"), PodState::Unspecified)
            .await;
    }
    assert!(world.node.pods().await.unwrap().is_empty());
}
