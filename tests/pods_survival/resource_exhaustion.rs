//! No room: told clearly, nothing left over, and all works again when there
//! is room.

use strata_testkit::images::Image;
use strata_testkit::pods::idle;
use strata_testkit::v1::PodState;
use strata_testkit::{Code, Daemon, NetworkNamespace, SmallDisk, Status};

use crate::pods_survival::STRATA;

const DISK: u64 = 96 << 20;

fn told<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.expect_err("there is no room");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let text = status.message().to_lowercase();
    let names_it = ["no space", "disk", "room"]
        .iter()
        .any(|w| text.contains(w));
    assert!(names_it, "{status}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_is_reported_and_affects_no_other_pod() {
    let images = tempfile::tempdir().unwrap();
    let small = Image::busybox().write_layout(&images.path().join("small"), "v1");
    let big = Image::busybox().layer().noise("big", 3, 20 << 20);
    let big = big.write_layout(&images.path().join("big"), "v1");
    let disk = SmallDisk::new(DISK);
    let network = NetworkNamespace::new();
    // What is unused may not be thrown away to make room: that is another test.
    let daemon = Daemon::build(STRATA)
        .config("[images]\nhigh_water = 100\nlow_water = 99")
        .within(&network)
        .on_disk(&disk.path());
    let mut daemon = daemon.start().await;
    let node = daemon.node().await;
    node.run_pod(idle("warm", &small)).await.unwrap();
    node.create_pod(idle("made", &small)).await.unwrap();
    let before = daemon.host().settled().await;

    // Not enough for the pull.
    let filling = disk.fill_but(8 << 20);
    told(node.create_pod(idle("big", &big)).await);
    assert_eq!(node.pods().await.unwrap().len(), 2);
    daemon.host().returns_to(&before).await;

    // Not enough for anything.
    std::fs::remove_file(&filling).unwrap();
    let filling = disk.fill_but(0);
    told(node.create_pod(idle("new", &small)).await);
    told(node.start_pod("made").await);
    assert_eq!(node.pods().await.unwrap().len(), 2);
    daemon.host().returns_to(&before).await;
    // What runs goes on, also over a death of the daemon, which itself needs
    // room for a few lines.
    let runs = node.pod("warm").await.unwrap().process_id;
    std::fs::remove_file(&filling).unwrap();
    let filling = disk.fill_but(512 << 10);
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(node.pod("warm").await.unwrap().process_id, runs);

    std::fs::remove_file(&filling).unwrap();
    node.start_pod("made").await.unwrap();
    node.run_pod(idle("new", &small)).await.unwrap();
    node.run_pod(idle("big", &big)).await.unwrap();
    for name in ["warm", "made", "new", "big"] {
        node.sh(name, "true").await.unwrap().ok();
        node.destroy_pod(name).await.unwrap();
    }
    drop(daemon);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_does_not_keep_pods_from_being_destroyed() {
    let images = tempfile::tempdir().unwrap();
    let small = Image::busybox().write_layout(&images.path().join("small"), "v1");
    let disk = SmallDisk::new(DISK);
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(STRATA)
        .within(&network)
        .on_disk(&disk.path())
        .start()
        .await;
    let node = daemon.node().await;
    for name in ["a", "b"] {
        node.run_pod(idle(name, &small)).await.unwrap();
    }
    disk.fill_but(0);
    // That it is not to run cannot be written down, and it is stopped.
    node.stop_pod("a").await.unwrap();
    assert_eq!(node.pod("a").await.unwrap().state(), PodState::Stopped);
    for name in ["a", "b"] {
        node.destroy_pod(name).await.unwrap();
    }
    assert!(node.pods().await.unwrap().is_empty());
    assert!(daemon.host().look().kept_of_pods.is_empty());
    drop(daemon);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_addresses_are_reported() {
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(STRATA)
        .config("[network]\nsubnet = \"10.42.7.0/29\"")
        .within(&network)
        .start()
        .await;
    let node = daemon.node().await;
    let image = Image::busybox().write_layout(&daemon.scratch().join("small"), "v1");
    let mut names = Vec::new();
    let status = loop {
        let name = format!("p{}", names.len());
        match node.run_pod(idle(&name, &image)).await {
            Ok(_) => names.push(name),
            Err(status) => break status,
        }
        assert!(names.len() < 8, "there are not so many");
    };
    assert_eq!(names.len(), 5);
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(node.pods().await.unwrap().len(), names.len());
    node.destroy_pod("p0").await.unwrap();
    node.run_pod(idle("again", &image)).await.unwrap();
}
