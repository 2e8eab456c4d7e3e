//! Volumes that a pod names take what the image has in their place.

use strata_testkit::images::Image;
use strata_testkit::pods::{idle, volume};
use strata_testkit::pool::TestPool;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{PodSecurity, PodSpec};

use crate::pods::{World, world, world_with};

const LOOK: &str = "stat -c '%a %u:%g' /data /data/inner/file; cat /data/inner/file";
const FOUND: &str = "750 1000:1000\n640 1000:1000\nof the image";

fn with_data(world: &World) -> String {
    let mut image = Image::busybox()
        .dir("data", 0o750, 1000)
        .dir("data/inner", 0o755, 1000)
        .file_as("data/inner/file", 0o640, 1000, b"of the image\n")
        .user("app");
    for number in 0..200 {
        image = image.file(&format!("data/many{number}"), &[b'x'; 4096]);
    }
    image.write_layout(&world.daemon.scratch().join("data"), "v1")
}

fn named(name: &str, image: &str, data: &str) -> PodSpec {
    PodSpec {
        volumes: vec![volume(Source::Volume(data.into()), "/data")],
        ..idle(name, image)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_volume_has_content_owners_and_modes_of_the_image() {
    let world = world().await;
    let (node, image) = (&world.node, with_data(&world));
    node.run_pod(named("first", &image, "data")).await.unwrap();
    assert_eq!(node.says("first", LOOK).await, FOUND);
    node.says(
        "first",
        "rm -r /data/many* /data/inner && echo own > /data/own",
    )
    .await;
    node.destroy_pod("first").await.unwrap();
    // What is in it stays, whatever an image has there.
    node.run_pod(named("second", &image, "data")).await.unwrap();
    assert_eq!(node.says("second", "ls /data").await, "own");
    // The same with the users of the host, and where it cannot be written.
    let mut host = named("host", &image, "other");
    host.security = Some(PodSecurity {
        user_namespace: Some(false),
        ..PodSecurity::default()
    });
    host.volumes[0].read_only = true;
    node.run_pod(host).await.unwrap();
    assert_eq!(node.says("host", LOOK).await, FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn emptied_volume_is_filled_again_and_one_in_use_is_not() {
    let world = world().await;
    let (node, image) = (&world.node, with_data(&world));
    // An image that has nothing there leaves it empty.
    node.run_pod(named("plain", &world.image, "data"))
        .await
        .unwrap();
    assert_eq!(node.says("plain", "ls /data").await, "");
    node.run_pod(named("beside", &image, "data")).await.unwrap();
    assert_eq!(node.says("plain", "ls /data").await, "", "it has it");
    node.destroy_pod("plain").await.unwrap();
    node.destroy_pod("beside").await.unwrap();
    node.run_pod(named("alone", &image, "data")).await.unwrap();
    assert_eq!(node.says("alone", LOOK).await, FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_pool_volume_has_content_owners_and_modes_of_the_image() {
    let pool = TestPool::new();
    let world = world_with(&pool.config()).await;
    let (node, image) = (&world.node, with_data(&world));
    let of_pool = |name: &str, image: &str, volume_name: &str| PodSpec {
        volumes: vec![volume(Source::Pool(volume_name.into()), "/data")],
        ..idle(name, image)
    };
    for name in ["data", "many", "host", "own"] {
        pool.volume(name);
    }
    // An image that has nothing there leaves it empty.
    let plain = of_pool("plain", &world.image, "data");
    node.run_pod(plain).await.unwrap();
    assert_eq!(node.says("plain", "ls -A /data").await, "");
    // It belongs to the image's user, who is not root.
    node.run_pod(of_pool("first", &image, "data"))
        .await
        .unwrap();
    assert_eq!(node.says("first", LOOK).await, FOUND);
    assert_eq!(node.says("first", "id -u").await, "1000");
    node.says(
        "first",
        "echo kept > /data/own; rm -r /data/many* /data/inner",
    )
    .await;
    assert_eq!(node.says("plain", "ls -A /data").await, "own");
    node.says("first", "rm /data/own").await;
    // What pods removed stays away.
    node.run_pod(of_pool("second", &image, "data"))
        .await
        .unwrap();
    assert_eq!(node.says("second", "ls -A /data").await, "");
    node.says("second", "echo again > /data/own").await;
    // With the users of the host, and where it cannot be written.
    let mut host = of_pool("host", &image, "host");
    host.security = Some(PodSecurity {
        user_namespace: Some(false),
        ..PodSecurity::default()
    });
    host.volumes[0].read_only = true;
    node.run_pod(host).await.unwrap();
    assert_eq!(node.says("host", LOOK).await, FOUND);
    // What was put into it stays as it is.
    let data = pool.path().join("volumes/own/data");
    std::fs::write(data.join("mine"), "mine").unwrap();
    node.run_pod(of_pool("own", &image, "own")).await.unwrap();
    assert_eq!(node.says("own", "ls -A /data").await, "mine");
    // Several at once find it whole.
    let names: Vec<String> = (0..6).map(|number| format!("pod{number}")).collect();
    let runs = names.iter().map(|name| async {
        let spec = of_pool(name, &image, "many");
        node.run_pod(spec).await.unwrap();
        node.says(name, "ls /data | wc -l").await
    });
    for count in futures_util::future::join_all(runs).await {
        assert_eq!(count.trim(), "201");
    }
    let pods = node.pods().await.unwrap();
    for pod in pods {
        let name = pod.spec.unwrap().name;
        node.destroy_pod(&name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_begin_at_once_find_a_new_volume_whole() {
    let world = world().await;
    let (node, image) = (&world.node, with_data(&world));
    let names: Vec<String> = (0..6).map(|number| format!("pod{number}")).collect();
    let runs = names.iter().map(|name| async {
        node.run_pod(named(name, &image, "data")).await.unwrap();
        node.says(name, "ls /data | wc -l").await
    });
    for count in futures_util::future::join_all(runs).await {
        assert_eq!(count.trim(), "201");
    }
}
