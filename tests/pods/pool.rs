//! Volumes of the storage pool in pods: a real btrfs in a file.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::{Pid, Signal, kill_process};
use strata_testkit::pods::{idle, volume};
use strata_testkit::pool::TestPool;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{GetNodeInfoRequest, Pod, PodSecurity, PodSpec, PodState, PodVolume};
use strata_testkit::{Code, Status, field_of, refused};

use crate::pods::{World, world_with};

/// A pod with a volume of the pool at `/data`.
fn with(world: &World, name: &str, of_pool: &str) -> PodSpec {
    let mut spec = idle(name, &world.image);
    spec.volumes = vec![volume(Source::Pool(of_pool.into()), "/data")];
    spec
}

/// The pool that the node says it reaches.
async fn told(world: &World) -> String {
    let mut its = world.node.client().node();
    let info = its.get_info(GetNodeInfoRequest {}).await;
    info.expect("a node tells of itself").into_inner().pool
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_volume_keeps_data_between_pods() {
    let pool = TestPool::new();
    let data = pool.volume("v1");
    let world = world_with(&pool.config()).await;
    let node = &world.node;
    assert_eq!(told(&world).await, pool.id());
    node.run_pod(with(&world, "first", "v1")).await.unwrap();
    node.says("first", "echo one > /data/file; mkdir /data/deep")
        .await;
    assert_eq!(fs::read_to_string(data.join("file")).unwrap(), "one\n");
    let flags = node.says("first", "grep ' /data ' /proc/mounts").await;
    assert!(
        flags.contains("nosuid") && flags.contains("nodev"),
        "{flags}"
    );
    node.destroy_pod("first").await.unwrap();
    let mut reader = with(&world, "reader", "v1");
    reader.volumes[0].read_only = true;
    node.run_pod(reader).await.unwrap();
    assert_eq!(node.says("reader", "cat /data/file").await, "one");
    let why = node.fails("reader", "echo x > /data/x").await;
    assert!(why.contains("Read-only"), "{why}");
    // Users of its own see the same files.
    let mut mapped = with(&world, "mapped", "v1");
    mapped.security = Some(PodSecurity {
        user_namespace: Some(true),
        ..PodSecurity::default()
    });
    node.run_pod(mapped).await.unwrap();
    node.says("mapped", "echo two > /data/second").await;
    assert_eq!(node.says("reader", "cat /data/second").await, "two");
    for name in ["reader", "mapped"] {
        node.destroy_pod(name).await.unwrap();
    }
    assert!(data.join("second").exists(), "volumes outlive pods");
}

async fn refusal(world: &World, of_pool: &str) -> Status {
    let made = world.node.run_pod(with(world, "web", of_pool)).await;
    let status = made.expect_err("it is refused");
    let field = field_of(&status);
    assert_eq!(field.as_deref(), Some("pod.volumes[0].pool"), "{status}");
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_invalid_pool_volume_is_refused() {
    let pool = TestPool::new();
    let world = world_with(&pool.config()).await;
    let status = refusal(&world, "v1").await;
    assert_eq!(status.code(), Code::NotFound, "{status}");
    let make = "make it: strata storage volume create v1";
    assert!(status.message().contains(make), "{status}");
    // A disk is for virtual machines.
    pool.disk("disk", 1 << 20);
    let status = refusal(&world, "disk").await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    for name in ["..", "a/b", "", "v1/../v2", "A"] {
        let status = refusal(&world, name).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{name:?}: {status}");
    }
    // Links lead nowhere, whether they stay in the pool or not.
    let outside = world.daemon.scratch();
    fs::create_dir(outside.join("data")).unwrap();
    let volumes = pool.path().join("volumes");
    pool.volume("real");
    symlink(&outside, volumes.join("out")).unwrap();
    symlink("real", volumes.join("in")).unwrap();
    fs::create_dir(volumes.join("half")).unwrap();
    symlink("../real/data", volumes.join("half/data")).unwrap();
    fs::create_dir(volumes.join("odd")).unwrap();
    fs::write(volumes.join("odd/data"), "").unwrap();
    for name in ["out", "in", "half", "odd"] {
        let status = refusal(&world, name).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{name:?}: {status}");
    }
    // Once it is there, the same pod can be run.
    pool.volume("v1");
    world.node.run_pod(with(&world, "web", "v1")).await.unwrap();
    world.node.destroy_pod("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_may_come_later_and_go() {
    let pool = TestPool::unmounted();
    // Where it is to be mounted is a directory, and on no pool.
    fs::create_dir_all(pool.path().join("volumes/v1/data")).unwrap();
    fs::write(pool.path().join("pool-id"), "false").unwrap();
    let world = world_with(&pool.config()).await;
    assert_eq!(told(&world).await, "");
    let why = world.node.run_pod(with(&world, "web", "v1")).await;
    let why = refused(why.map(drop), Code::FailedPrecondition);
    assert!(why.contains("does not reach the storage pool"), "{why}");
    pool.mount();
    pool.volume("v1");
    assert_eq!(told(&world).await, pool.id());
    world.node.run_pod(with(&world, "web", "v1")).await.unwrap();
    world.node.says("web", "echo kept > /data/file").await;
    // What has a part of it keeps that; what is started meanwhile waits.
    pool.unmount();
    assert_eq!(told(&world).await, "");
    assert_eq!(world.node.says("web", "cat /data/file").await, "kept");
    let pod = world.node.pod("web").await.unwrap();
    let pid = Pid::from_raw(pod.process_id.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let waits = |pod: &Pod| pod.state() == PodState::Waiting && pod.reason.contains("not reach");
    world.node.pod_until("web", waits).await;
    pool.mount();
    let runs = |pod: &Pod| pod.state() == PodState::Running;
    world.node.pod_until("web", runs).await;
    assert_eq!(world.node.says("web", "cat /data/file").await, "kept");
    world.node.destroy_pod("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_a_pool_refuses_pool_volumes() {
    let world = world_with("").await;
    assert_eq!(told(&world).await, "");
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![PodVolume {
        read_only: true,
        ..volume(Source::Pool("v1".into()), "/data")
    }];
    let why = refused(
        world.node.run_pod(spec).await.map(drop),
        Code::FailedPrecondition,
    );
    assert!(why.contains("does not reach the storage pool"), "{why}");
}
