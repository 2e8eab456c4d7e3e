//! What is mounted into pods, and what is kept of it.

use std::fs;

use strata_testkit::pods::{folder, idle, script, volume};
use strata_testkit::v1::PodVolume;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::{Code, field_of};

use crate::world;

#[tokio::test(flavor = "multi_thread")]
async fn folders_and_files_of_the_machine_can_be_shared() {
    let world = world().await;
    let node = &world.node;
    let scratch = world.daemon.scratch();
    let (shared, fixed, file) = (
        scratch.join("shared"),
        scratch.join("fixed"),
        scratch.join("file"),
    );
    fs::create_dir(&shared).unwrap();
    fs::create_dir(&fixed).unwrap();
    fs::write(fixed.join("there"), "there").unwrap();
    fs::write(&file, "text").unwrap();
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![
        // The inner one is named first: the order does not matter.
        folder(&fixed, "/shared/inner"),
        folder(&shared, "/shared"),
        PodVolume {
            read_only: true,
            ..folder(&fixed, "/very/deep/fixed")
        },
        folder(&file, "/etc/special.conf"),
        PodVolume {
            read_only: true,
            ..folder(&file, "/fixed.conf")
        },
    ];
    node.run_pod(spec).await.unwrap();
    node.says(
        "web",
        "echo inside > /shared/new; echo more >> /etc/special.conf; cat /shared/inner/there",
    )
    .await;
    assert_eq!(fs::read_to_string(shared.join("new")).unwrap(), "inside\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "textmore\n");
    assert_eq!(
        node.says("web", "cat /very/deep/fixed/there").await,
        "there"
    );
    for script in [
        "echo x > /very/deep/fixed/x",
        "echo x > /fixed.conf",
        "rm /very/deep/fixed/there",
    ] {
        let why = node.fails("web", script).await;
        assert!(why.contains("Read-only"), "{script}: {why}");
    }
    // What comes from outside later is seen.
    fs::write(shared.join("later"), "later").unwrap();
    assert_eq!(node.says("web", "cat /shared/later").await, "later");
    // What the machine shares gains nobody anything.
    node.says(
        "web",
        "cp /bin/busybox /shared/own && chmod 4755 /shared/own",
    )
    .await;
    let flags = node.says("web", "grep ' /shared ' /proc/mounts").await;
    assert!(
        flags.contains("nosuid") && flags.contains("nodev"),
        "{flags}"
    );
    node.destroy_pod("web").await.unwrap();
    assert_eq!(fs::read_to_string(shared.join("later")).unwrap(), "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_the_node_stay_and_are_shared() {
    let world = world().await;
    let node = &world.node;
    let named = |name: &str| {
        let mut spec = idle(name, &world.image);
        spec.volumes = vec![volume(Source::Volume("data".into()), "/data")];
        spec
    };
    node.run_pod(named("first")).await.unwrap();
    node.run_pod(named("second")).await.unwrap();
    node.says("first", "echo one > /data/file").await;
    assert_eq!(node.says("second", "cat /data/file").await, "one");
    node.destroy_pod("first").await.unwrap();
    node.destroy_pod("second").await.unwrap();
    node.run_pod(named("third")).await.unwrap();
    assert_eq!(node.says("third", "cat /data/file").await, "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_as_large_as_asked_for_and_gone_with_the_pod() {
    let world = world().await;
    let node = &world.node;
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![volume(Source::MemoryBytes(2 << 20), "/memory")];
    node.run_pod(spec).await.unwrap();
    node.says("web", "dd if=/dev/zero of=/memory/fits bs=1M count=1")
        .await;
    let why = node
        .fails("web", "dd if=/dev/zero of=/memory/big bs=1M count=3")
        .await;
    assert!(why.contains("No space left"), "{why}");
    node.stop_pod("web").await.unwrap();
    node.start_pod("web").await.unwrap();
    assert_eq!(node.says("web", "ls /memory").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_mounted_is_told_by_its_field() {
    let world = world().await;
    let node = &world.node;
    let missing = world.daemon.scratch().join("missing");
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![
        volume(Source::Volume("data".into()), "/data"),
        folder(&missing, "/x"),
    ];
    let error = node.run_pod(spec.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(
        field_of(&error).as_deref(),
        Some("pod.volumes[1].folder"),
        "{error}"
    );
    assert!(
        error.message().contains(&*missing.to_string_lossy()),
        "{error}"
    );
    // Once it is there, the same pod can be run.
    fs::create_dir(&missing).unwrap();
    node.run_pod(spec).await.unwrap();
    node.destroy_pod("web").await.unwrap();
    // A folder onto a file of the image.
    let mut spec = script("file", &world.image, "true");
    spec.volumes = vec![folder(&missing, "/etc/passwd")];
    let error = node.run_pod(spec).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(
        field_of(&error).as_deref(),
        Some("pod.volumes[0].target"),
        "{error}"
    );
}
