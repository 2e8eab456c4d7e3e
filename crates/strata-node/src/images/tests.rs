//! Images as those use them who run things from them.

use strata_image::{PruneGoal, StoreError};
use strata_testkit::images::Image as Made;
use strata_types::ErrorKind;

use super::remove::Goal;
use super::*;

struct World {
    folder: tempfile::TempDir,
    images: Images,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Never too full, whatever machine this is.
        let config = ImagesConfig {
            high_water: 100,
            ..ImagesConfig::default()
        };
        let images = Images::open(folder.path().join("images"), config).await;
        Self {
            images: images.unwrap(),
            folder,
        }
    }

    /// The name of a small image.
    fn image(&self, name: &str) -> Reference {
        let made = Made::empty().file("name", name.as_bytes());
        let text = made.write_layout(&self.folder.path().join(name), "v1");
        text.parse().unwrap()
    }

    async fn remove(&self, name: &Reference) -> Result<()> {
        let removed = self.images.remove("image", &name.to_string()).await;
        removed.map(drop)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ensure_asks_the_source_as_the_policy_says() {
    let world = World::new().await;
    let name = world.image("web");
    let images = &world.images;
    let never = images.ensure(&name, PullPolicy::Never).await.unwrap_err();
    assert_eq!(never.kind(), ErrorKind::NotFound);
    let first = images.ensure(&name, PullPolicy::Missing).await.unwrap();
    assert!(first.image.layers[0].join("name").is_file());
    // Another image under the same name.
    Made::empty()
        .file("name", b"newer")
        .write_layout(&world.folder.path().join("web"), "v1");
    for policy in [PullPolicy::Missing, PullPolicy::Never] {
        let same = images.ensure(&name, policy).await.unwrap();
        assert_eq!(same.image.digest, first.image.digest);
    }
    let newer = images.ensure(&name, PullPolicy::Always).await.unwrap();
    assert_ne!(newer.image.digest, first.image.digest);
    // The old one stays for whoever holds it.
    images.prune(Goal::Unused, false).await.unwrap();
    assert!(first.image.layers[0].is_dir() && newer.image.layers[0].is_dir());
    let layer = first.image.layers[0].clone();
    drop(first);
    images.prune(Goal::Garbage, false).await.unwrap();
    assert!(!layer.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_is_neither_removed_nor_pruned() {
    let world = World::new().await;
    let name = world.image("web");
    let images = &world.images;
    let held = images.ensure(&name, PullPolicy::Missing).await.unwrap();
    let refused = world.remove(&name).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongState);
    let digest = held.image.digest;
    images.report_uses_by(move || {
        ["pod web", "pod db"]
            .map(|by| ImageUse {
                digest,
                by: by.into(),
            })
            .into()
    });
    drop(held);
    let refused = world.remove(&name).await.unwrap_err();
    assert!(refused.message().contains("pod web, pod db"), "{refused}");
    images.prune(Goal::Unused, false).await.unwrap();
    images.ensure(&name, PullPolicy::Never).await.unwrap();
    images.report_uses_by(Vec::new);
    world.remove(&name).await.unwrap();
    world.remove(&name).await.unwrap();
    let unknown = world.remove(&world.image("db")).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

/// A lease that passes over into a use while a prune is at work: the prune
/// asked before there was a use, and acts when the lease is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_during_a_look_lasts_as_long_as_the_look() {
    let world = World::new().await;
    let name = world.image("web");
    let inner = &world.images.0;
    let held = world.images.ensure(&name, PullPolicy::Missing).await;
    let held = held.unwrap();
    let layer = held.image.layers[0].clone();
    inner.store.remove(&name, &[]).await.unwrap();
    let look = inner.uses.look();
    drop(held);
    inner.store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert!(layer.is_dir());
    drop(look);
    inner.store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert!(!layer.exists());
    let gone = inner.store.show(&name);
    assert!(matches!(gone, Err(StoreError::UnknownImage(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_another_machine_is_as_good_as_none() {
    let world = World::new().await;
    let made = Made::empty().architecture("s390x");
    let text = made.write_layout(&world.folder.path().join("other"), "v1");
    let name: Reference = text.parse().unwrap();
    let mut wanted = Wanted::new(name.clone());
    wanted.platform = platform_from_field("platform", "s390x").unwrap();
    world.images.pull(wanted).unwrap().image().await.unwrap();
    let never = world.images.ensure(&name, PullPolicy::Never).await;
    assert_eq!(never.unwrap_err().kind(), ErrorKind::NotFound);
    let pulled = world.images.ensure(&name, PullPolicy::Missing).await;
    let refused = pulled.unwrap_err();
    assert_eq!(refused.field(), Some("platform"));
    assert_eq!(world.images.list().unwrap().len(), 1);
}
