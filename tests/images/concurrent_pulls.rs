//! Many at once: one download for all, and nobody's leaving stops the others.

use std::time::Instant;

use strata_testkit::images::{Image, Proxy, Registry};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::images::{daemon, names, pull, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pulls_of_one_image_cost_one_download() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let image = Image::empty()
        .noise("a", 1, 3 << 20)
        .layer()
        .noise("b", 2, 3 << 20);
    let name = registry.push(&image, "big:v1");
    let digest = image.digest();
    let (_daemon, node) = daemon(&[registry.address()], "").await;
    let begin = Instant::now();
    let pulls: Vec<_> = (0..100)
        .map(|_| {
            let (node, name) = (node.clone(), name.clone());
            tokio::spawn(async move { pull(&node, &name).await })
        })
        .collect();
    for pulled in pulls {
        assert_eq!(pulled.await.unwrap().unwrap().digest, digest);
    }
    println!("100 pulls of one image took {:?}", begin.elapsed());
    // Two layers and the config.
    assert_eq!(registry.count("GET /v2/big/blobs/"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_goes_on_without_its_caller_and_is_joined_by_others() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let image = Image::empty().noise("a", 3, 4 << 20);
    registry.push(&image, "slow:v1");
    let proxy = Proxy::start(registry.address(), 1 << 20).await;
    let name = format!("{}/slow:v1", proxy.address());
    let (daemon, node) = daemon(&[&proxy.address()], "").await;
    let answer = node.client().images().pull(request(&name)).await.unwrap();
    let mut messages = answer.into_inner();
    // It is on its way, and tells so.
    loop {
        let message = messages.message().await.unwrap().unwrap();
        if message.layers.iter().any(|layer| layer.done_bytes > 0) {
            assert!(message.image.is_none());
            break;
        }
    }
    proxy.held().await;
    drop(messages);
    let cli = daemon.cli_with_endpoints();
    let joined = tokio::spawn({
        let (cli, name) = (cli.clone(), name.clone());
        async move { cli.run(["image", "pull", &name, "-q"]).await }
    });
    proxy.allow(usize::MAX);
    assert_eq!(joined.await.unwrap().ok().trim(), image.digest());
    assert_eq!(names(&node).await, [name]);
    // The layer came in one piece.
    assert_eq!(registry.count("GET /v2/slow/blobs/"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_pull_completes() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    registry.push(&Image::empty().noise("a", 4, 2 << 20), "slow:v1");
    let proxy = Proxy::start(registry.address(), 1 << 20).await;
    let name = format!("{}/slow:v1", proxy.address());
    let (_daemon, node) = daemon(&[&proxy.address()], "").await;
    let answer = node.client().images().pull(request(&name)).await.unwrap();
    proxy.held().await;
    drop(answer);
    assert!(names(&node).await.is_empty());
    proxy.allow(usize::MAX);
    wait_for("the image to be here", TEST_TIMEOUT, async || {
        holds(names(&node).await == [name.as_str()])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_pulls_than_run_at_once_all_come_to_their_end() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let images: Vec<Image> = (0..6)
        .map(|n| Image::empty().noise("a", 100 + n, 100_000))
        .collect();
    let names: Vec<String> = images
        .iter()
        .enumerate()
        .map(|(n, image)| registry.push(image, &format!("many:v{n}")))
        .collect();
    let (_daemon, node) = daemon(&[registry.address()], "parallel_pulls = 1").await;
    let pulls: Vec<_> = names
        .iter()
        .map(|name| {
            let (node, name) = (node.clone(), name.clone());
            tokio::spawn(async move { pull(&node, &name).await })
        })
        .collect();
    for (pulled, image) in pulls.into_iter().zip(&images) {
        assert_eq!(pulled.await.unwrap().unwrap().digest, image.digest());
    }
}
