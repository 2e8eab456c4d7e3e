//! The daemon ends and comes back, and so does the server.

use strata_testkit::pods::idle;
use strata_testkit::v1::{PodSpec, PodState};

use crate::agent::{run, stopped, world};

#[tokio::test(flavor = "multi_thread")]
async fn restarted_daemon_reports_all_instances_and_applies_missed_changes() {
    let mut world = world().await;
    let server = world.followed().await;
    let pod = |name: &str| run(name, idle(name, &world.image));
    let all = ["stays", "stops", "goes", "changes"].map(pod);
    for one in &all {
        server.assign(one).await;
    }
    for one in &all {
        server.becomes(&one.id, PodState::Running).await;
    }
    let pid = world.node.pod("stays").await.unwrap().process_id;
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;

    let server = world.server.next().await;
    assert_eq!(server.hello().await.subnet, "10.42.77.0/24");
    server.reported().await;
    for one in &all {
        let report = server.latest(&one.id).expect("it is told before the end");
        assert_eq!(report.state(), PodState::Running, "{report:?}");
        assert_eq!(report.generation, 1);
    }
    server.welcome().await;
    let [stays, stops, _, mut changes] = all;
    changes.generation = 5;
    for one in [&stays, &stopped(&stops), &changes] {
        server.assign(one).await;
    }
    server.withdraw("goes").await;
    server.complete().await;
    server.becomes("stops", PodState::Stopped).await;
    server.becomes("goes", PodState::Unspecified).await;
    server
        .until("changes", |report| {
            report.generation == 5 && report.state() == PodState::Running
        })
        .await;
    assert_eq!(world.node.pod("stays").await.unwrap().process_id, pid);
    assert_eq!(world.node.pods().await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_during_daemon_downtime_is_reported() {
    let mut world = world().await;
    let server = world.followed().await;
    let spec = crate::agent::never(PodSpec {
        volumes: vec![strata_testkit::pods::dir(
            &world.daemon.scratch(),
            "/scratch",
        )],
        ..strata_testkit::pods::script(
            "job",
            &world.image,
            "while [ ! -e /scratch/over ]; do sleep 0.05; done; exit 5",
        )
    });
    let job = run("job", spec);
    server.assign(&job).await;
    server.becomes("job", PodState::Running).await;
    let pid = world.node.pod("job").await.unwrap().process_id;
    world.daemon.kill();
    std::fs::write(world.daemon.scratch().join("over"), "").unwrap();
    strata_testkit::wait_for("its end", strata_testkit::TEST_TIMEOUT, async || {
        strata_testkit::holds(!std::path::Path::new(&format!("/proc/{pid}")).exists())
    })
    .await;
    for _ in 0..2 {
        world.daemon.restart().await;
        let server = world.server.next().await;
        server.reported().await;
        let report = server.latest("job").unwrap();
        assert_eq!(report.state(), PodState::Exited, "{report:?}");
        assert_eq!(report.exit_code, Some(5));
        // Nor was it anything else before, while what it left was cleared.
        let first = server.reports().into_iter().find(|one| one.id == "job");
        assert_eq!(first.map(|one| one.state()), Some(PodState::Exited));
        server.welcome().await;
        server.assign(&job).await;
        server.complete().await;
        // Said twice and still not run twice.
        server.until("job", |r| r.state() == PodState::Exited).await;
        world.daemon.kill();
    }
    world.daemon.restart().await;
    let _ = world.server.next().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_found_again() {
    let mut world = world().await;
    let server = world.followed().await;
    let web = run("web", idle("web", &world.image));
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    let pid = world.node.pod("web").await.unwrap().process_id;
    // In order, and without a word.
    server.end().await;
    let server = world.server.next().await;
    server.reported().await;
    world.server.die().await;
    world.server.listen();
    let server = world.server.next().await;
    server.reported().await;
    assert_eq!(server.latest("web").unwrap().state(), PodState::Running);
    server.welcome().await;
    server.assign(&web).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    assert_eq!(world.node.pod("web").await.unwrap().process_id, pid);
    // It ends in time, and what runs goes on.
    let (status, took) = world.daemon.terminate().await;
    assert!(status.success() && took.as_secs() < 10, "{status} {took:?}");
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
}
