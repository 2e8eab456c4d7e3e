//! Images as used by the code that runs things from them.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use strata_image::{PruneGoal, StoreError};
use strata_testkit::images::Image as Made;
use strata_types::ErrorKind;

use super::remove::PruneScope;
use super::*;

struct World {
    dir: tempfile::TempDir,
    images: Images,
}

impl World {
    async fn new() -> Self {
        // Never too full, whatever machine this is.
        let config = ImagesConfig {
            high_water: 100,
            reserve: DiskReserve::NONE,
            ..ImagesConfig::default()
        };
        Self::with(config).await
    }

    async fn with(config: ImagesConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::open(
            dir.path().join("images"),
            config,
            tokio_util::sync::CancellationToken::new().into(),
        )
        .await;
        Self {
            images: images.unwrap(),
            dir,
        }
    }

    /// The name of a small image.
    fn image(&self, name: &str) -> Reference {
        let made = Made::empty().file("name", name.as_bytes());
        let text = made.write_layout(&self.dir.path().join(name), "v1");
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
        .write_layout(&world.dir.path().join("web"), "v1");
    for policy in [PullPolicy::Missing, PullPolicy::Never] {
        let same = images.ensure(&name, policy).await.unwrap();
        assert_eq!(same.image.digest, first.image.digest);
    }
    let newer = images.ensure(&name, PullPolicy::Always).await.unwrap();
    assert_ne!(newer.image.digest, first.image.digest);
    // The old one stays for its holder.
    images.prune(PruneScope::Unused, false).await.unwrap();
    assert!(first.image.layers[0].is_dir() && newer.image.layers[0].is_dir());
    let layer = first.image.layers[0].clone();
    drop(first);
    images.prune(PruneScope::Garbage, false).await.unwrap();
    assert!(!layer.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn image_that_is_too_large_leaves_nothing() {
    let world = World::with(ImagesConfig {
        image_bytes: 1 << 20,
        reserve: DiskReserve::NONE,
        ..ImagesConfig::default()
    })
    .await;
    let made = Made::empty().file("small", b"small");
    let made = made.file("large", &vec![0; 2 << 20]);
    let text = made.write_layout(&world.dir.path().join("large"), "v1");
    let name: Reference = text.parse().unwrap();
    let refused = world.images.ensure(&name, PullPolicy::Missing).await;
    let refused = refused.unwrap_err();
    assert!(refused.hint().unwrap().contains("image_gib"), "{refused}");
    for dir in ["layers", "blobs/sha256", "tmp"] {
        let left = std::fs::read_dir(world.dir.path().join("images").join(dir));
        assert_eq!(left.unwrap().count(), 0, "{dir}");
    }
}

/// A registry that accepts connections and says nothing.
async fn silent_registry() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            held.push(stream);
        }
    });
    (address, accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn pulls_of_one_project_leave_places_to_others() {
    let (address, accepted) = silent_registry().await;
    let mut config = ImagesConfig {
        high_water: 100,
        reserve: DiskReserve::NONE,
        ..ImagesConfig::default()
    };
    config.registries.plain_http = vec![address.clone()];
    let world = World::with(config).await;
    let of_shop = |number: usize| {
        let name = format!("{address}/app:v{number}").parse().unwrap();
        let mut wanted = PullRequest::new(name);
        wanted.project = Some("shop".into());
        world.images.pull(wanted)
    };
    let mut pulls: Vec<_> = (0..512).map(|number| of_shop(number).unwrap()).collect();
    let refused = of_shop(512).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    let running = || accepted.load(Ordering::Relaxed);
    let waits = tokio::time::timeout(Duration::from_secs(20), async {
        while running() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waits.await.unwrap();
    let name = world.image("web");
    let images = &world.images;
    let pulled = images.ensure_for(&name, PullPolicy::Missing, Some("rival"));
    let pulled = tokio::time::timeout(Duration::from_secs(20), pulled).await;
    pulled.expect("no place for another project").unwrap();
    assert_eq!(running(), 4, "half of the places");
    assert!(
        pulls
            .iter_mut()
            .all(|pull| pull.image().now_or_never().is_none())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn image_in_use_is_neither_removed_nor_pruned() {
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
                project: None,
            })
            .into()
    });
    drop(held);
    let refused = world.remove(&name).await.unwrap_err();
    assert!(refused.message().contains("pod web, pod db"), "{refused}");
    images.prune(PruneScope::Unused, false).await.unwrap();
    images.ensure(&name, PullPolicy::Never).await.unwrap();
    images.report_uses_by(Vec::new);
    world.remove(&name).await.unwrap();
    world.remove(&name).await.unwrap();
    let unknown = world.remove(&world.image("db")).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

/// A lease that passes over into a use while a prune is at work: the prune
/// called the hook before there was a use, and acts when the lease is gone.
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
    let text = made.write_layout(&world.dir.path().join("other"), "v1");
    let name: Reference = text.parse().unwrap();
    let mut wanted = PullRequest::new(name.clone());
    wanted.platform = platform_from_field("platform", "s390x").unwrap();
    world.images.pull(wanted).unwrap().image().await.unwrap();
    let never = world.images.ensure(&name, PullPolicy::Never).await;
    assert_eq!(never.unwrap_err().kind(), ErrorKind::NotFound);
    let pulled = world.images.ensure(&name, PullPolicy::Missing).await;
    let refused = pulled.unwrap_err();
    assert_eq!(refused.field(), Some("platform"));
    assert_eq!(world.images.list().unwrap().len(), 1);
}

/// A disk of its own, for as long as it lives.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=100m", "tmpfs"])
            .arg(dir.path())
            .status();
        assert!(mount.unwrap().success());
        Self(dir)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        let _ = umount.arg("--lazy").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn project_is_refused_beyond_its_share_of_the_disk_and_others_are_not() {
    let disk = Disk::new();
    let config = ImagesConfig {
        high_water: 100,
        ..ImagesConfig::default()
    };
    let tasks = tokio_util::sync::CancellationToken::new();
    let images = Images::open(disk.0.path().join("images"), config, tasks.into()).await;
    let images = images.unwrap();
    let world = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        // Compresses badly enough not to be a bomb.
        let data: Vec<u8> = (0..(6_u64 << 20) / 8)
            .flat_map(|n| [n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, 0, 0])
            .flat_map(u64::to_le_bytes)
            .take(6 << 20)
            .collect();
        let made = Made::empty()
            .file("data", &data)
            .file("name", name.as_bytes());
        made.write_layout(&world.path().join(name), "v1")
    };
    let ensure = async |project: &str, name: &str| {
        let name: Reference = image(name).parse().unwrap();
        images
            .ensure_for(&name, PullPolicy::Missing, Some(project))
            .await
    };
    let in_use: Arc<Mutex<Vec<ImageUse>>> = Arc::default();
    images.report_uses_by({
        let in_use = Arc::clone(&in_use);
        move || in_use.lock().unwrap().clone()
    });
    let mut refused = None;
    for number in 0..20 {
        match ensure("greedy", &format!("g{number}")).await {
            Ok(held) => in_use.lock().unwrap().push(ImageUse {
                digest: held.image.digest,
                by: format!("pod {number}"),
                project: Some("greedy".into()),
            }),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("greedy has filled the disk");
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.message().contains("project greedy"), "{refused}");
    assert!(
        refused.hint().unwrap().contains("project_share"),
        "{refused}"
    );
    ensure("modest", "m0").await.unwrap();
    // When its instances are gone, their images make room for new ones.
    in_use.lock().unwrap().clear();
    for number in 20..40 {
        ensure("greedy", &format!("g{number}")).await.unwrap();
    }
    ensure("modest", "m1").await.unwrap();
}
