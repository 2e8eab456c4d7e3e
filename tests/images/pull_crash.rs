//! `kill -9` in the middle of a pull.

use strata_testkit::images::{Image, Proxy, Registry};

use crate::images::{daemon, kept, names, pull, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_after_a_kill_resumes_and_leaves_nothing_stale() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let image = Image::empty().noise("a", 5, 8 << 20);
    registry.push(&image, "big:v1");
    let proxy = Proxy::start(registry.address(), 3 << 20).await;
    let name = format!("{}/big:v1", proxy.address());
    let (mut daemon, node) = daemon(&[&proxy.address()], "").await;
    let answer = node.client().images().pull(request(&name)).await.unwrap();
    proxy.held().await;
    let partial = || {
        let names = kept(&daemon, "partial");
        let dir = daemon.data_dir().join("node/images/partial");
        names
            .iter()
            .map(|name| std::fs::metadata(dir.join(name)).unwrap().len())
            .sum::<u64>()
    };
    strata_testkit::wait_for(
        "some of it on disk",
        strata_testkit::TEST_TIMEOUT,
        async || strata_testkit::holds(partial() > 2 << 20),
    )
    .await;
    daemon.kill();
    drop((answer, node));
    daemon.restart().await;
    let node = daemon.node().await;
    assert!(names(&node).await.is_empty());
    assert!(kept(&daemon, "tmp").is_empty());
    // What is allowed now is less than the whole: only a pull that resumes
    // comes to its end.
    proxy.allow(7 << 20);
    assert_eq!(pull(&node, &name).await.unwrap().digest, image.digest());
    assert_eq!(registry.count(" 206 "), 1, "{:#?}", registry.asked());
    for dir in ["partial", "tmp"] {
        assert!(kept(&daemon, dir).is_empty(), "{dir}");
    }
    assert_eq!(kept(&daemon, "layers").len(), 1);
    // Manifest, config, layer.
    assert_eq!(kept(&daemon, "blobs/sha256").len(), 3);
    let cli = daemon.cli_with_endpoints();
    cli.run(["image", "remove", &name, "--yes"]).await.ok();
    daemon.kill();
    daemon.restart().await;
    // That it was removed is known to the next daemon too.
    cli.run(["image", "remove", &name, "--yes"]).await.ok();
    assert!(kept(&daemon, "blobs/sha256").is_empty());
}
