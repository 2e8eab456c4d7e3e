//! Room: prune as far as asked, and by itself when the disk is full.

use strata_testkit::images::Image;

use crate::images::{daemon, kept, names, pull};

#[tokio::test(flavor = "multi_thread")]
async fn prune_tells_first_and_then_does() {
    let (daemon, node) = daemon(&[], "").await;
    let cli = daemon.cli_with_endpoints();
    let scratch = daemon.scratch();
    let image = Image::empty().noise("a", 7, 1 << 20);
    let name = image.write_layout(&scratch.join("one"), "v1");
    pull(&node, &name).await.unwrap();
    // The same name, another image: the old content is garbage.
    std::fs::remove_dir_all(scratch.join("one")).unwrap();
    let newer = Image::empty().noise("b", 8, 1 << 20);
    newer.write_layout(&scratch.join("one"), "v1");
    assert_eq!(pull(&node, &name).await.unwrap().digest, newer.digest());
    let layers = kept(&daemon, "layers").len();
    assert_eq!(layers, 2);
    let would = cli
        .run(["image", "prune", "--dry-run", "-o", "json"])
        .await
        .json();
    assert_eq!(kept(&daemon, "layers").len(), 2);
    let did = cli.run(["image", "prune", "-o", "json"]).await.json();
    assert_eq!(would["freed_bytes"], did["freed_bytes"]);
    assert!(did["freed_bytes"].as_u64().unwrap() >= 2 << 20);
    assert_eq!(kept(&daemon, "layers").len(), 1);
    assert_eq!(names(&node).await, [name.as_str()]);
    // Enough is free.
    cli.run(["image", "prune", "--free", "1", "--yes"])
        .await
        .ok();
    assert_eq!(names(&node).await, [name.as_str()]);
    let said = cli.run(["image", "prune", "--all", "--dry-run"]).await.ok();
    assert!(said.contains(&format!("would remove {name}\n")), "{said}");
    assert_eq!(names(&node).await, [name.as_str()]);
    cli.run(["image", "prune", "--all", "--yes"]).await.ok();
    assert!(names(&node).await.is_empty());
    for dir in ["blobs/sha256", "layers"] {
        assert!(kept(&daemon, dir).is_empty(), "{dir}");
    }
    cli.run(["image", "remove", &name, "--yes"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_unused_images() {
    // Every file system is fuller than this.
    let marks = "high_water = 1\nlow_water = 0";
    let (daemon, node) = daemon(&[], marks).await;
    let scratch = daemon.scratch();
    let mut last = String::new();
    for n in 0..3 {
        let dir = scratch.join(n.to_string());
        let image = Image::empty().noise("a", 20 + n, 100_000);
        last = image.write_layout(&dir, "v1");
        pull(&node, &last).await.unwrap();
    }
    assert_eq!(names(&node).await, [last]);
    assert!(daemon.log().contains("removed unused images"));
}
