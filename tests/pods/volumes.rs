//! What is mounted into pods, and what is kept of it.

use std::fs;

use strata_testkit::images::Image;
use strata_testkit::pods::{dir, idle, script, volume};
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{
    CreateVolumeRequest, GetVolumeRequest, ListVolumesRequest, PodLimits, PodSecurity, PodSpec,
    PodVolume, RemoveVolumeRequest, Volume,
};
use strata_testkit::{Code, Status, field_of, refused, serde_json};

use crate::pods::{World, world};

#[tokio::test(flavor = "multi_thread")]
async fn directories_and_files_of_the_machine_can_be_shared() {
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
        dir(&fixed, "/shared/inner"),
        dir(&shared, "/shared"),
        PodVolume {
            read_only: true,
            ..dir(&fixed, "/very/deep/fixed")
        },
        dir(&file, "/etc/special.conf"),
        PodVolume {
            read_only: true,
            ..dir(&file, "/fixed.conf")
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
async fn invalid_volume_is_refused_by_field() {
    let world = world().await;
    let node = &world.node;
    let missing = world.daemon.scratch().join("missing");
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![
        volume(Source::Volume("data".into()), "/data"),
        dir(&missing, "/x"),
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
    // A directory onto a file of the image.
    let mut spec = script("file", &world.image, "true");
    spec.volumes = vec![dir(&missing, "/etc/passwd")];
    let error = node.run_pod(spec).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(
        field_of(&error).as_deref(),
        Some("pod.volumes[0].target"),
        "{error}"
    );
}

/// A volume as the node shows it.
async fn shown(world: &World, name: &str) -> Volume {
    let request = GetVolumeRequest { name: name.into() };
    let answer = world.node.client().volumes().get(request).await;
    answer.expect("it is there").into_inner()
}

async fn remove(world: &World, name: &str) -> Result<(), Status> {
    let request = RemoveVolumeRequest { name: name.into() };
    let answer = world.node.client().volumes().remove(request).await;
    answer.map(drop)
}

async fn create(world: &World, name: &str, size_bytes: Option<u64>) -> Result<Volume, Status> {
    let request = CreateVolumeRequest {
        name: name.into(),
        size_bytes,
    };
    let answer = world.node.client().volumes().create(request).await?;
    Ok(answer.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_with_a_size_holds_no_more_and_outlives_pods_and_daemons() {
    const SIZE: u64 = 8 << 20;
    let mut world = world().await;
    let made = create(&world, "data", Some(SIZE)).await.unwrap();
    assert_eq!((made.size_bytes, made.used_by.len()), (Some(SIZE), 0));
    // The same again is fine, another size is not.
    create(&world, "data", Some(SIZE)).await.unwrap();
    for (name, size, code, field) in [
        ("data", Some(2 * SIZE), Code::AlreadyExists, "size_bytes"),
        ("tiny", Some(1), Code::InvalidArgument, "size_bytes"),
        ("No_Name", None, Code::InvalidArgument, "name"),
    ] {
        let status = create(&world, name, size).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert_eq!(field_of(&status).as_deref(), Some(field), "{status}");
    }
    let with = |name: &str| {
        let mut spec = idle(name, &world.image);
        spec.volumes = vec![volume(Source::Volume("data".into()), "/data")];
        spec
    };
    let mut mapped = with("mapped");
    mapped.security = Some(PodSecurity {
        user_namespace: Some(true),
        ..PodSecurity::default()
    });
    world.node.run_pod(with("first")).await.unwrap();
    // Nothing but what pods put there.
    assert_eq!(world.node.says("first", "ls -A /data").await, "");
    let fill = "dd if=/dev/zero of=/data/big bs=1M count=20";
    let why = world.node.fails("first", fill).await;
    assert!(
        why.contains("No space left") || why.contains("quota"),
        "{why}"
    );
    world
        .node
        .says("first", "sync -f /data; echo kept > /data/kept")
        .await;
    let used = shown(&world, "data").await;
    assert!(used.used_bytes > Some(SIZE / 2), "{used:?}");
    assert_eq!(used.used_by, ["first"]);
    // A daemon that was started later gives the same to the next pod.
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    world.node.run_pod(mapped).await.unwrap();
    assert_eq!(world.node.says("mapped", "cat /data/kept").await, "kept");
    world
        .node
        .says("mapped", "rm /data/big; echo more > /data/more")
        .await;
    assert_eq!(world.node.says("first", "cat /data/more").await, "more");
    assert_eq!(shown(&world, "data").await.used_by, ["first", "mapped"]);
    for name in ["first", "mapped"] {
        let why = refused(remove(&world, "data").await, Code::FailedPrecondition);
        assert!(why.contains(name), "{why}");
        world.node.stop_pod(name).await.unwrap();
        world.node.destroy_pod(name).await.unwrap();
    }
    let left = shown(&world, "data").await;
    assert!(left.used_by.is_empty(), "{left:?}");
    world.node.run_pod(with("last")).await.unwrap();
    let kept = world.node.says("last", "cd /data; cat kept more; ls").await;
    assert_eq!(kept, "kept\nmore\nkept\nmore");
    world.node.destroy_pod("last").await.unwrap();
    remove(&world, "data").await.unwrap();
    refused(remove(&world, "data").await, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_listed_with_who_has_them() {
    let world = world().await;
    let list = async || {
        let request = ListVolumesRequest {};
        let answer = world.node.client().volumes().list(request).await;
        answer.unwrap().into_inner().volumes
    };
    assert!(list().await.is_empty());
    create(&world, "b", None).await.unwrap();
    let mut spec = idle("web", &world.image);
    spec.volumes = vec![volume(Source::Volume("a".into()), "/data")];
    // From the moment it is made, whether it runs or not.
    world.node.create_pod(spec.clone()).await.unwrap();
    let (names, users): (Vec<_>, Vec<_>) = list()
        .await
        .into_iter()
        .map(|v| (v.name, v.used_by))
        .unzip();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(users, [vec!["web".to_owned()], vec![]]);
    world.node.start_pod("web").await.unwrap();
    let write = "dd if=/dev/urandom of=/data/x bs=1M count=1; sync -f /data";
    world.node.says("web", write).await;
    let used = list().await[0].used_bytes;
    assert!(used >= Some(1 << 20) && used < Some(2 << 20), "{used:?}");
    // What could not be made holds nothing.
    spec.name = "none".into();
    spec.image = "oci:/nowhere".into();
    world.node.create_pod(spec).await.unwrap_err();
    assert_eq!(list().await[0].used_by, ["web"]);
    let data = world.daemon.data_dir();
    let cli = world.daemon.cli();
    cli.run(["down", "--yes", "--data-dir", &data.to_string_lossy()])
        .await
        .ok();
    assert!(data.join("node/volumes/a").exists(), "volumes stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_volume_is_created_and_removed_with_the_pod() {
    let mut world = world().await;
    let image = Image::busybox()
        .layer()
        .dir("data", 0o750, 1000)
        .file_as("data/given", 0o640, 1000, b"given")
        .symlink("data/link", "given")
        .set(
            "Volumes",
            serde_json::json!({ "/data": {}, "/new/deep": {}, "/own": {} }),
        );
    let image = image.write_layout(&world.daemon.scratch().join("wants"), "v1");
    let volumes = async |world: &World| {
        let request = ListVolumesRequest {};
        let answer = world.node.client().volumes().list(request).await;
        answer.unwrap().into_inner().volumes
    };
    let mut spec = idle("web", &image);
    spec.volumes = vec![volume(Source::MemoryBytes(1 << 20), "/own")];
    spec.security = Some(PodSecurity {
        read_only_root: true,
        ..PodSecurity::default()
    });
    spec.limits = Some(PodLimits {
        disk_bytes: Some(8 << 20),
        ..PodLimits::default()
    });
    world.node.run_pod(spec.clone()).await.unwrap();
    let made = volumes(&world).await;
    assert_eq!(made.len(), 2, "{made:?}");
    for volume in &made {
        assert!(volume.of_image && volume.used_by == ["web"], "{volume:?}");
        // Together they have what the pod has.
        assert_eq!(volume.size_bytes, Some(4 << 20));
        refused(remove(&world, &volume.name).await, Code::FailedPrecondition);
    }
    // What the image has there is there, whose it was, and it can be changed.
    let look = "cd /data; stat -c '%a %u %n' . given; readlink link; cat link";
    let seen = world.node.says("web", look).await;
    assert_eq!(seen, "750 1000 .\n640 1000 given\ngiven\ngiven");
    world.node.fails("web", "echo x > /etc/x").await;
    world
        .node
        .says("web", "echo more > /data/more; echo x > /new/deep/x")
        .await;
    let full = "dd if=/dev/zero of=/new/deep/big bs=1M count=20";
    world.node.fails("web", full).await;
    // Over stop and start, and over daemons; another pod has its own.
    world.node.stop_pod("web").await.unwrap();
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    world.node.start_pod("web").await.unwrap();
    assert_eq!(world.node.says("web", "cat /data/more").await, "more");
    let mapped = PodSpec {
        name: "mapped".into(),
        limits: None,
        security: Some(PodSecurity {
            user_namespace: Some(true),
            ..PodSecurity::default()
        }),
        ..spec
    };
    world.node.run_pod(mapped).await.unwrap();
    assert_eq!(
        world
            .node
            .says("mapped", "ls /data; stat -c %u /data")
            .await,
        "given\nlink\n1000"
    );
    assert_eq!(volumes(&world).await.len(), 4);
    for name in ["web", "mapped"] {
        world.node.destroy_pod(name).await.unwrap();
    }
    assert!(volumes(&world).await.is_empty());
}

/// An image names as many volumes as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn image_volumes_take_no_more_than_the_disk_limit_of_their_pod() {
    const LIMIT_MIB: u64 = 16;
    let world = world().await;
    let places = ["/a", "/b", "/c", "/d"];
    let volumes: serde_json::Map<_, _> = places
        .iter()
        .map(|&place| (place.to_owned(), serde_json::json!({})))
        .collect();
    let image = Image::busybox().set("Volumes", volumes.into());
    let image = image.write_layout(&world.daemon.scratch().join("many"), "v1");
    for (name, read_only_root) in [("open", false), ("sealed", true)] {
        let mut spec = idle(name, &image);
        spec.security = Some(PodSecurity {
            read_only_root,
            ..PodSecurity::default()
        });
        spec.limits = Some(PodLimits {
            disk_bytes: Some(LIMIT_MIB << 20),
            ..PodLimits::default()
        });
        world.node.run_pod(spec).await.unwrap();
        let fill = "for place in /a /b /c /d; do \
            dd if=/dev/zero of=$place/big bs=1M count=16 2>/dev/null; done; sync; \
            du -cm /a /b /c /d | tail -n 1 | cut -f 1";
        let filled: u64 = world.node.says(name, fill).await.parse().unwrap();
        // Where the limit is a file system in a file, it is a little larger.
        let most = LIMIT_MIB + LIMIT_MIB / 2;
        assert!((1..=most).contains(&filled), "{name}: {filled} MiB");
        world.node.stop_pod(name).await.unwrap();
        world.node.destroy_pod(name).await.unwrap();
    }
}

/// What a server assigns for a caller limited to projects: without a size such a
/// volume would fill the disk of the node, and it outlives its pod.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_created_for_a_pod_share_the_size_that_it_has_for_them() {
    let world = world().await;
    create(&world, "known", None).await.unwrap();
    let mut spec = idle("web", &world.image);
    let named = |name: &str| volume(Source::Volume(name.into()), &format!("/{name}"));
    spec.volumes = vec![named("one"), named("two"), named("known")];
    spec.volume_bytes = Some(24 << 20);
    world.node.run_pod(spec).await.unwrap();
    for dir in ["one", "two"] {
        let full = format!("dd if=/dev/zero of=/{dir}/big bs=1M count=20");
        world.node.fails("web", &full).await;
    }
    let big = "dd if=/dev/zero of=/known/big bs=1M count=20";
    world.node.says("web", big).await;
    let request = ListVolumesRequest {};
    let listed = world.node.client().volumes().list(request).await.unwrap();
    let sizes = listed.into_inner().volumes;
    let sizes: Vec<_> = sizes.iter().map(|it| (&*it.name, it.size_bytes)).collect();
    // What was there keeps the size that it has.
    let part = Some(8 << 20);
    assert_eq!(sizes, [("known", None), ("one", part), ("two", part)]);
}
