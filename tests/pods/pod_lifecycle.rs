//! A pod from the first to the last, and what is left of it: nothing.

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodSpec, PodState};
use strata_testkit::{Code, refused};

use crate::pods::world;

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_pod() {
    let world = world().await;
    let node = &world.node;
    // The first pod brings up what all pods share.
    node.run_pod(idle("first", &world.image)).await.unwrap();
    node.destroy_pod("first").await.unwrap();
    let traces = world.daemon.host().settled().await;
    let pod = node.create_pod(idle("web", &world.image)).await.unwrap();
    assert_eq!(pod.state(), PodState::Created);
    assert_eq!(pod.process_id, 0);
    let pod = node.start_pod("web").await.unwrap();
    assert_eq!(pod.state(), PodState::Running);
    assert!(pod.process_id > 0);
    assert!(!pod.address.is_empty());
    node.sh("web", "echo kept > /srv/file").await.unwrap().ok();
    let pod = node.stop_pod("web").await.unwrap();
    assert_eq!(pod.state(), PodState::Stopped);
    // Its files and its address survive a stop.
    let address = pod.address.clone();
    let pod = node.start_pod("web").await.unwrap();
    assert_eq!(pod.address, address);
    let file = node.sh("web", "cat /srv/file").await.unwrap();
    assert_eq!(file.ok(), "kept");
    node.destroy_pod("web").await.unwrap();
    assert!(node.pods().await.unwrap().is_empty());
    // Again is fine, of one that never was is not.
    node.destroy_pod("web").await.unwrap();
    refused(node.destroy_pod("other").await, Code::NotFound);
    world.daemon.host().returns_to(&traces).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn image_defines_the_default_command() {
    let world = world().await;
    let node = &world.node;
    let plain = PodSpec {
        name: "plain".into(),
        image: world.image.clone(),
        ..PodSpec::default()
    };
    node.run_pod(plain.clone()).await.unwrap();
    let pod = node.wait_pod("plain").await.unwrap();
    assert_eq!((pod.state(), pod.exit_code), (PodState::Exited, Some(0)));
    assert_eq!(node.pod_log("plain").await.unwrap(), ["hello from busybox"]);

    let told = PodSpec {
        name: "told".into(),
        arguments: vec!["echo $GREETING $MORE; pwd; id -u".into()],
        environment: vec!["GREETING=told".into(), "MORE=more".into()],
        working_directory: "/tmp".into(),
        user: "app".into(),
        ..plain
    };
    node.run_pod(told).await.unwrap();
    node.wait_pod("told").await.unwrap();
    assert_eq!(
        node.pod_log("told").await.unwrap(),
        ["told more", "/tmp", "1000"]
    );
}

/// `tasks` is a file in every group of cgroup v1.
#[tokio::test(flavor = "multi_thread")]
async fn pod_may_have_the_name_of_a_file_of_the_kernel() {
    let mut world = world().await;
    world
        .node
        .run_pod(idle("first", &world.image))
        .await
        .unwrap();
    world.node.destroy_pod("first").await.unwrap();
    let before = world.daemon.host().settled().await;
    let mut spec = idle("tasks", &world.image);
    spec.limits = Some(strata_testkit::v1::PodLimits {
        memory_bytes: Some(64 << 20),
        ..Default::default()
    });
    let made = world.node.run_pod(spec).await.unwrap();
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let pod = world.node.pod("tasks").await.unwrap();
    assert_eq!(
        (pod.state(), pod.process_id),
        (PodState::Running, made.process_id)
    );
    assert_eq!(world.node.says("tasks", "echo here").await, "here");
    world.node.stop_pod("tasks").await.unwrap();
    world.node.start_pod("tasks").await.unwrap();
    world.node.destroy_pod("tasks").await.unwrap();
    let after = world.daemon.host().settled().await;
    assert_eq!(after.cgroups, before.cgroups);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_creation_is_idempotent() {
    let world = world().await;
    let node = &world.node;
    let first = node.run_pod(idle("web", &world.image)).await.unwrap();
    let again = node.run_pod(idle("web", &world.image)).await.unwrap();
    assert_eq!((first.id, first.process_id), (again.id, again.process_id));
    let other = script("web", &world.image, "true");
    refused(node.run_pod(other).await, Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_pod_start_reports_the_reason_and_leaves_nothing_running() {
    let world = world().await;
    let node = &world.node;
    let mut missing = idle("missing", &world.image);
    missing.entrypoint = vec!["/no/such/program".into()];
    let why = refused(node.run_pod(missing.clone()).await, Code::InvalidArgument);
    assert!(why.contains("no such file"), "{why}");
    // What is refused changes nothing; what was made before stays, and says
    // why it does not run.
    refused(node.pod("missing").await, Code::NotFound);
    node.create_pod(missing).await.unwrap();
    refused(node.start_pod("missing").await, Code::InvalidArgument);
    let pod = node.pod("missing").await.unwrap();
    assert_eq!(pod.state(), PodState::Failed);
    assert!(pod.reason.contains("no such file"), "{}", pod.reason);
    let mut nobody = idle("nobody", &world.image);
    nobody.user = "nosuchuser".into();
    let why = refused(node.run_pod(nobody).await, Code::InvalidArgument);
    assert!(why.contains("no user \"nosuchuser\""), "{why}");
    let unknown = idle("unknown", "oci:/no/such/layout:x");
    refused(node.run_pod(unknown).await, Code::NotFound);
    assert_eq!(node.pods().await.unwrap().len(), 1);
    node.destroy_pod("missing").await.unwrap();
}
