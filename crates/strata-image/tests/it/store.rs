//! The store with local sources: pulls, names, what stays and what goes.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::image::BuiltImage;
use crate::support::layer::{Layer, zstd};
use crate::support::{names, store};
use strata_image::{
    ArchiveSource, LayoutSource, Phase, Progress, PruneGoal, PullOptions, Reference, Source,
    SourceError, Store, StoreError, StoreOptions,
};
use tokio::sync::watch;

fn layout(made: &BuiltImage, dir: &Path) -> Arc<dyn Source> {
    made.write_layout(dir, &["v1"]);
    Arc::new(LayoutSource::new(dir, Some("v1".into())))
}

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn made(names: &[&str]) -> BuiltImage {
    let layers: Vec<Layer> = names
        .iter()
        .map(|name| Layer::new().file(name, name.as_bytes()))
        .collect();
    BuiltImage::new(&layers)
}

async fn pull(store: &Store, name: &str, source: &Arc<dyn Source>) -> strata_image::Image {
    store
        .pull(&reference(name), source, PullOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_layout_becomes_layers_in_order() {
    let world = tempfile::tempdir().unwrap();
    let layers = [
        Layer::new().file("a", b"1"),
        Layer::new().file("b", b"2"),
        Layer::new().file("a", b"1"),
    ];
    let made = BuiltImage::packed(&layers, zstd);
    let source = layout(&made, &world.path().join("layout"));
    let store = store(&world.path().join("store"));
    let (sender, receiver) = watch::channel(Progress::default());
    let options = PullOptions {
        progress: Some(sender),
        ..PullOptions::default()
    };
    let image = store
        .pull(&reference("web"), &source, options)
        .await
        .unwrap();
    assert_eq!(image.digest, made.digest());
    assert_eq!(image.config.config.cmd, ["/bin/sh"]);
    assert_eq!(image.layers.len(), 3);
    assert_eq!(fs::read(image.layers[1].join("b")).unwrap(), b"2");
    assert_eq!(image.layers[0], image.layers[2]);
    let progress = receiver.borrow().clone();
    assert_eq!(progress.phase(), Phase::Done);
    assert!(
        progress
            .layers
            .iter()
            .all(|layer| layer.done == layer.total)
    );
    let shown = store
        .show(&reference("docker.io/library/web:latest"))
        .unwrap();
    assert_eq!(shown.layers, image.layers);
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(names(&world.path().join("store/tmp")).is_empty());
}

#[tokio::test]
async fn an_archive_of_docker_is_the_same_image() {
    let world = tempfile::tempdir().unwrap();
    let made = made(&["one", "two"]);
    let layers = [
        Layer::new().file("one", b"one"),
        Layer::new().file("two", b"two"),
    ];
    let archive = Layer::new()
        .file("1/layer.tar", &layers[0].tar())
        .file("3/layer.tar", &crate::support::layer::gzip(&layers[1].tar()))
        .symlink("2/layer.tar", "../3/layer.tar")
        .file("config.json", &made.config)
        .file(
            "manifest.json",
            br#"[{"Config":"config.json","RepoTags":["x:y"],"Layers":["1/layer.tar","2/layer.tar"]}]"#,
        );
    let path = world.path().join("image.tar");
    fs::write(&path, archive.tar()).unwrap();
    let source: Arc<dyn Source> = Arc::new(ArchiveSource::new(&path));
    let store = store(&world.path().join("store"));
    let name = format!("docker-archive:{}", path.display());
    let image = pull(&store, &name, &source).await;
    assert_eq!(image.config.rootfs.diff_ids, made.diff_ids);
    assert_eq!(fs::read(image.layers[1].join("two")).unwrap(), b"two");

    for (text, part) in [
        (&b"[]"[..], "names no image"),
        (br#"[{"Config":"none","Layers":[]}]"#, "no \"none\""),
        (b"nonsense", "expected"),
    ] {
        fs::write(&path, Layer::new().file("manifest.json", text).tar()).unwrap();
        let source: Arc<dyn Source> = Arc::new(ArchiveSource::new(&path));
        let error = source
            .resolve(&strata_image::Platform::host())
            .await
            .unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn layouts_that_are_unclear_say_what_they_hold() {
    let world = tempfile::tempdir().unwrap();
    let made = made(&["one"]);
    made.write_layout(world.path(), &["v1", "v2"]);
    let host = strata_image::Platform::host();
    let resolve = |tag: Option<&str>| {
        let source = LayoutSource::new(world.path(), tag.map(Into::into));
        let host = host.clone();
        async move { source.resolve(&host).await }
    };
    assert!(resolve(Some("v2")).await.is_ok());
    assert!(matches!(
        resolve(Some("v3")).await,
        Err(SourceError::NotFound(_))
    ));
    let error = resolve(None).await.unwrap_err();
    assert!(error.to_string().contains("v1, v2"), "{error}");
    let blob = world.path().join("blobs/sha256").join(made.digest().hex());
    fs::write(blob, "{}").unwrap();
    assert!(matches!(
        resolve(Some("v1")).await,
        Err(SourceError::Digest { .. })
    ));
}

#[tokio::test]
async fn shared_layers_are_kept_until_the_last_image_goes() {
    let world = tempfile::tempdir().unwrap();
    let store = store(&world.path().join("store"));
    let first = layout(&made(&["base", "one"]), &world.path().join("1"));
    let second = layout(&made(&["base", "two"]), &world.path().join("2"));
    let one = pull(&store, "one", &first).await;
    let two = pull(&store, "two", &second).await;
    assert_eq!(one.layers[0], two.layers[0]);

    let in_use = [one.digest];
    let refused = store.remove(&one.reference, &in_use).await;
    assert!(matches!(refused, Err(StoreError::InUse(_))));
    store.remove(&two.reference, &in_use).await.unwrap();
    assert!(one.layers[0].exists() && !two.layers[1].exists());
    let again = store.remove(&two.reference, &in_use).await;
    assert!(matches!(again, Err(StoreError::UnknownImage(_))));
    let pruned = store.prune(PruneGoal::Packed, &in_use).await.unwrap();
    assert_eq!((pruned.blobs, pruned.layers), (2, 0));
    assert_eq!(pull(&store, "one", &first).await.layers, one.layers);
    let pruned = store.prune(PruneGoal::Free(u64::MAX), &[]).await.unwrap();
    assert_eq!(pruned.images, std::slice::from_ref(&one.reference));
    assert!(matches!(
        store.show(&one.reference),
        Err(StoreError::UnknownImage(_))
    ));
    for dir in ["blobs/sha256", "layers", "images", "partial", "tmp"] {
        assert!(
            names(&world.path().join("store").join(dir)).is_empty(),
            "{dir}"
        );
    }
}

#[tokio::test]
async fn the_least_recently_used_image_goes_first() {
    let world = tempfile::tempdir().unwrap();
    let store = store(&world.path().join("store"));
    for name in ["one", "two", "three"] {
        let source = layout(&made(&[name]), &world.path().join(name));
        pull(&store, name, &source).await;
    }
    store.touch(&reference("one")).unwrap();
    let pruned = store.prune(PruneGoal::Free(1), &[]).await.unwrap();
    // Packed layers were enough.
    assert!(pruned.images.is_empty() && pruned.blobs == 3);
    let pruned = store.prune(PruneGoal::Free(1), &[]).await.unwrap();
    assert_eq!(pruned.images, [reference("two")]);
}

#[tokio::test]
async fn a_moved_tag_leaves_what_runs_from_the_old_image() {
    let world = tempfile::tempdir().unwrap();
    let store = store(&world.path().join("store"));
    let old = pull(
        &store,
        "web",
        &layout(&made(&["old"]), &world.path().join("1")),
    )
    .await;
    let new = pull(
        &store,
        "web",
        &layout(&made(&["new"]), &world.path().join("2")),
    )
    .await;
    store
        .prune(PruneGoal::Garbage, &[old.digest])
        .await
        .unwrap();
    assert!(old.layers[0].exists() && new.layers[0].exists());
    store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert!(!old.layers[0].exists() && new.layers[0].exists());
}

#[tokio::test]
async fn crash_and_power_loss_leave_a_complete_image_or_none() {
    let world = tempfile::tempdir().unwrap();
    let root = world.path().join("store");
    let source = layout(&made(&["one"]), &world.path().join("1"));
    let first = store(&root);
    let locked = Store::open(&root, StoreOptions::default()).map(drop);
    assert!(matches!(locked, Err(StoreError::Locked(_))));
    let image = pull(&first, "one", &source).await;
    wait_until_unlocked(first, &root).await;
    // A daemon that died while it unpacked, and a machine that did.
    fs::create_dir_all(root.join("tmp/7/root/deep")).unwrap();
    fs::write(root.join("partial").join(image.digest.hex()), "old").unwrap();
    let layer = image.config.rootfs.diff_ids[0].hex();
    fs::write(
        root.join("unsynced").join(format!("layer-{layer}")),
        "another boot",
    )
    .unwrap();
    let options = StoreOptions {
        keep_partial: std::time::Duration::ZERO,
        ..StoreOptions::default()
    };
    let second = crate::support::store_with(&root, &options);
    for dir in ["tmp", "partial", "unsynced", "layers"] {
        assert!(names(&root.join(dir)).is_empty(), "{dir}");
    }
    assert!(matches!(
        second.show(&image.reference),
        Err(StoreError::UnknownImage(_))
    ));
    assert_eq!(pull(&second, "one", &source).await.layers, image.layers);
}

/// The sync after a pull holds the store for a moment longer.
async fn wait_until_unlocked(store: Store, root: &Path) {
    while !names(&root.join("unsynced")).is_empty() {
        tokio::task::yield_now().await;
    }
    drop(store);
    let lock = fs::File::open(root.join("lock")).unwrap();
    tokio::task::spawn_blocking(move || {
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_hostile_layer_fails_the_pull_and_leaves_no_image() {
    let world = tempfile::tempdir().unwrap();
    let store = store(&world.path().join("store"));
    let evil = BuiltImage::new(&[
        Layer::new().file("ok", b"1"),
        Layer::new().file("../evil", b"x"),
    ]);
    let source = layout(&evil, &world.path().join("1"));
    let error = store
        .pull(&reference("evil"), &source, PullOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unpack { .. }), "{error}");
    assert!(store.list().unwrap().is_empty());
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), strata_types::ErrorKind::Invalid);
    // The good layer may still be on its way into its place.
    let dirs = ["blobs/sha256", "layers", "tmp"].map(|f| world.path().join("store").join(f));
    while !dirs.iter().all(|dir| names(dir).is_empty()) {
        store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    }
}

#[tokio::test]
async fn held_image_survives_prune_and_dry_run_changes_nothing() {
    let world = tempfile::tempdir().unwrap();
    let store = store(&world.path().join("store"));
    let source = layout(&made(&["one"]), &world.path().join("1"));
    let image = pull(&store, "one", &source).await;
    assert!(image.unpacked_size >= 3);
    let would = store.would_prune(PruneGoal::Free(u64::MAX), &[]).await;
    let would = would.unwrap();
    assert_eq!(would.images, [reference("one")]);
    let (held, hold) = store.hold(&reference("one")).unwrap();
    assert_eq!(held.layers, image.layers);
    store.remove(&reference("one"), &[]).await.unwrap();
    let gone = store.hold(&reference("one")).map(drop);
    assert!(matches!(gone, Err(StoreError::UnknownImage(_))));
    assert!(held.layers[0].exists());
    drop(hold);
    let pruned = store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert!(!held.layers[0].exists());
    assert_eq!(
        (pruned.blobs, pruned.layers, pruned.bytes),
        (would.blobs, would.layers, would.bytes)
    );
}
