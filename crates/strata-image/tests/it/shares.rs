//! The disk of the images, shared by projects: the images of one leave room for
//! those of others.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::disk::Disk;
use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::store_with;
use strata_image::{
    Digest, DiskReserve, LayoutSource, PruneGoal, PullOptions, Reference, Source, Store,
    StoreError, StoreOptions,
};

const MEBIBYTE: u64 = 1 << 20;

/// A store on a disk of its own, and images beside it.
struct World {
    disk: Disk,
    images: tempfile::TempDir,
    store: Store,
}

impl World {
    fn new(disk: &str) -> Self {
        let disk = Disk::of(disk);
        let mut options = StoreOptions {
            reserve: DiskReserve::default(),
            ..StoreOptions::default()
        };
        // Zeroes are what is tested with; the bound on bombs is not the subject.
        options.limits.ratio = u64::MAX;
        let store = store_with(&disk.path().join("images"), &options);
        Self {
            disk,
            images: tempfile::tempdir().unwrap(),
            store,
        }
    }

    fn layout(&self, name: &str) -> PathBuf {
        self.images.path().join(name)
    }

    /// An image of one file, and a pull of it for a project.
    async fn pull(&self, project: &str, name: &str, mebibytes: usize) -> Result<(), StoreError> {
        self.write(name, mebibytes, name);
        self.pull_again(project, name, &[]).await.map(drop)
    }

    fn write(&self, name: &str, mebibytes: usize, content: &str) {
        let mut data = vec![0; mebibytes << 20];
        data[..content.len()].copy_from_slice(content.as_bytes());
        let layer = Layer::new().file("data", &data);
        BuiltImage::new(&[layer]).write_layout(&self.layout(name), &["v1"]);
    }

    async fn pull_again(
        &self,
        project: &str,
        name: &str,
        used: &[Digest],
    ) -> Result<Digest, StoreError> {
        let options = PullOptions {
            holder: project.to_owned(),
            used: used.to_vec(),
            ..PullOptions::default()
        };
        let layout = self.layout(name);
        let source: Arc<dyn Source> = Arc::new(LayoutSource::new(&layout, Some("v1".into())));
        let pulled = self.store.pull(&named(&layout), &source, options).await;
        pulled.map(|image| image.digest)
    }

    /// The names of the images that are here.
    fn names(&self) -> Vec<String> {
        let images = self.store.list().unwrap().into_iter();
        let name = |reference: Reference| {
            let text = reference.to_string();
            let path = text.trim_start_matches("oci:").trim_end_matches(":v1");
            Path::new(path)
                .file_name()
                .unwrap()
                .to_str()
                .map(str::to_owned)
        };
        let mut names: Vec<_> = images.filter_map(|image| name(image.reference)).collect();
        names.sort();
        names
    }
}

fn named(layout: &Path) -> Reference {
    format!("oci:{}:v1", layout.display()).parse().unwrap()
}

fn assert_refused(error: &StoreError) {
    assert!(error.is_share() && error.is_out_of_space(), "{error}");
    let text = error.to_string();
    assert!(text.contains("project greedy"), "{text}");
    assert!(text.contains("50 percent"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_one_project_leave_half_of_the_disk_to_others() {
    let world = World::new("size=200m");
    let mut refused = None;
    for number in 0..25 {
        let pulled = world.pull("greedy", &format!("g{number}"), 8).await;
        if let Err(error) = pulled {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("greedy has filled the disk");
    assert_refused(&refused);
    let public = strata_types::Error::from(refused);
    assert_eq!(public.kind(), strata_types::ErrorKind::Exhausted);
    world.store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    let held = world.disk.used() / MEBIBYTE;
    assert!((70..=92).contains(&held), "{held} MiB");
    // The next one has the same share of the rest, and a caller of the node all.
    world.pull("modest", "m", 40).await.unwrap();
    world.pull("", "admin", 30).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_pulls_of_a_project_have_one_share() {
    let world = World::new("size=200m");
    let names: Vec<_> = (0..6).map(|number| format!("g{number}")).collect();
    let pulls = names.iter().map(|name| world.pull("greedy", name, 30));
    let pulled = futures_util::future::join_all(pulls).await;
    let refused: Vec<_> = pulled.into_iter().filter_map(Result::err).collect();
    refused.iter().for_each(assert_refused);
    // Three of them would fit, but all count while they are under way.
    assert!(refused.len() >= 3, "{refused:?}");
    world.store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert!(world.disk.used() <= 92 * MEBIBYTE);
    // What was refused is not charged.
    world
        .store
        .prune(PruneGoal::Free(u64::MAX), &[])
        .await
        .unwrap();
    world.pull("greedy", "again", 80).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_charged_after_its_name_means_another_image() {
    let world = World::new("size=200m");
    let mut used = Vec::new();
    for number in 0..25 {
        world.write("moving", 8, &format!("{number}"));
        match world.pull_again("greedy", "moving", &used).await {
            Ok(digest) => used.push(digest),
            Err(error) => {
                assert_refused(&error);
                break;
            }
        }
        // Running images stay.
        world.store.prune(PruneGoal::Garbage, &used).await.unwrap();
    }
    assert!((8..=11).contains(&used.len()), "{}", used.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn project_is_charged_for_what_others_pulled_and_it_uses() {
    let world = World::new("size=200m");
    world.pull("greedy", "own", 50).await.unwrap();
    world.pull("", "small", 10).await.unwrap();
    world.pull("", "large", 45).await.unwrap();
    let claim = |name: &str| {
        let reference = named(&world.layout(name));
        world.store.claim(&reference, "greedy", &[])
    };
    claim("small").unwrap();
    assert_refused(&claim("large").unwrap_err());
    // Again, it adds nothing.
    claim("small").unwrap();
    claim("own").unwrap();
    let small = world.store.show(&named(&world.layout("small"))).unwrap();
    assert!(small.projects.contains("greedy"));
    let refused = world.pull("greedy", "more", 40).await.unwrap_err();
    assert_refused(&refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_files_are_charged_as_inodes() {
    let world = World::new("size=400m,nr_inodes=20000");
    let image = |number: u32| {
        let layer = (0..2000).fold(Layer::new(), |layer, file| {
            layer.file(&format!("{number}-{file}"), b"")
        });
        let name = format!("g{number}");
        BuiltImage::new(&[layer]).write_layout(&world.layout(&name), &["v1"]);
        name
    };
    let mut here = 0;
    for number in 0..10 {
        match world.pull_again("greedy", &image(number), &[]).await {
            Ok(_) => here += 1,
            Err(error) => {
                assert_refused(&error);
                assert!(error.to_string().contains("inodes"), "{error}");
                break;
            }
        }
    }
    assert!((3..=4).contains(&here), "{here}");
}

#[tokio::test(flavor = "multi_thread")]
async fn eviction_takes_projects_over_their_share_first() {
    let world = World::new("size=200m");
    world.pull("modest", "m1", 10).await.unwrap();
    for number in 0..7 {
        let name = format!("g{number}");
        world.pull("greedy", &name, 12).await.unwrap();
    }
    // Greedy has 84 of 190 MiB, and little is left: it has more than its share.
    world.pull("", "admin", 70).await.unwrap();
    let pruned = world.store.prune(PruneGoal::Free(5 * MEBIBYTE), &[]).await;
    let gone: Vec<_> = pruned.unwrap().images;
    assert_eq!(gone, [named(&world.layout("g0"))]);
    assert!(world.names().contains(&"m1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn project_at_its_share_gives_up_what_it_does_not_use() {
    let world = World::new("size=200m");
    world.pull("modest", "m1", 10).await.unwrap();
    for number in 0..6 {
        let name = format!("g{number}");
        world.pull("greedy", &name, 14).await.unwrap();
    }
    // Another project uses one of them, and an instance runs from the oldest.
    let shared = named(&world.layout("g1"));
    world.store.claim(&shared, "modest", &[]).unwrap();
    let running = world.store.show(&named(&world.layout("g0"))).unwrap();
    assert_refused(&world.pull("greedy", "next", 20).await.unwrap_err());
    let in_use = [running.digest];
    let prune = |percent| world.store.prune_share("greedy", percent, &in_use);
    prune(50).await.unwrap();
    let left = world.names();
    assert_eq!(left, ["g0", "g1", "g4", "g5", "m1"]);
    let freed = world.store.show(&shared).unwrap().projects;
    assert_eq!(freed, ["modest".to_owned()].into());
    world
        .pull_again("greedy", "next", &[running.digest])
        .await
        .unwrap();
    prune(0).await.unwrap();
    assert_eq!(world.names(), ["g0", "g1", "m1"]);
}
