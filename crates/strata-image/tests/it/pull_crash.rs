//! Killed at any moment, a store is whole or has nothing of it.
//!
//! The test starts itself again as the process that pulls, kills it at a
//! point that moves on with every round, and looks at what is left.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::names;
use strata_image::{LayoutSource, Progress, PruneGoal, PullOptions, Source, Store, StoreOptions};
use tokio::sync::watch;

const WORLD: &str = "STRATA_IMAGE_TEST_WORLD";
const ROUNDS: usize = 16;
const LAYERS: u8 = 4;

fn made() -> BuiltImage {
    let layer = |n: u8| {
        (0..40).fold(Layer::new().dir("d"), |layer, file| {
            layer.file(&format!("d/{n}-{file}"), &[n; 3_000])
        })
    };
    let layers: Vec<Layer> = (0..LAYERS).map(layer).collect();
    BuiltImage::packed(&layers, <[u8]>::to_vec)
}

fn source(world: &Path) -> Arc<dyn Source> {
    Arc::new(LayoutSource::new(world.join("layout"), None))
}

/// The process that is killed: it prints a line for every step that it makes.
#[tokio::test]
async fn pulling_child() {
    let Some(world) = std::env::var_os(WORLD) else {
        return;
    };
    let world = Path::new(&world);
    let store = Store::open(world.join("store"), StoreOptions::default()).unwrap();
    let (sender, mut receiver) = watch::channel(Progress::default());
    tokio::spawn(async move {
        while receiver.changed().await.is_ok() {
            println!("step");
        }
    });
    let options = PullOptions {
        progress: Some(sender),
        ..PullOptions::default()
    };
    let name = "web".parse().unwrap();
    store.pull(&name, &source(world), options).await.unwrap();
    store.remove(&name, &[]).await.unwrap();
    println!("step");
}

#[tokio::test]
async fn kill_at_any_time_leaves_a_complete_image_or_none() {
    let made = made();
    let mut whole = 0;
    for round in 0..ROUNDS {
        let world = tempfile::tempdir().unwrap();
        made.write_layout(&world.path().join("layout"), &["v1"]);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "pull_crash::pulling_child",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(WORLD, world.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.take(round + 2).for_each(drop);
        let _ = child.kill();
        child.wait().unwrap();
        whole += usize::from(check(world.path(), &made).await);
    }
    println!("{whole} of {ROUNDS} were whole when killed");
}

/// What a new daemon finds; whether the image was there.
async fn check(world: &Path, made: &BuiltImage) -> bool {
    let root = world.join("store");
    let store = Store::open(&root, StoreOptions::default()).unwrap();
    assert!(names(&root.join("tmp")).is_empty());
    for blob in names(&root.join("blobs/sha256")) {
        let content = fs::read(root.join("blobs/sha256").join(&blob)).unwrap();
        assert_eq!(strata_image::Digest::of(&content).hex(), blob);
    }
    for layer in names(&root.join("layers")) {
        assert_eq!(
            names(&root.join("layers").join(&layer)),
            ["entries", "root", "size"]
        );
        assert_eq!(
            names(&root.join("layers").join(&layer).join("root/d")).len(),
            40
        );
    }
    let name = "web".parse().unwrap();
    let shown = store.show(&name);
    if let Ok(image) = &shown {
        assert_eq!(image.layers.len(), usize::from(LAYERS));
        assert!(image.layers.iter().all(|layer| layer.is_dir()));
    }
    let options = PullOptions::default();
    let image = store.pull(&name, &source(world), options).await.unwrap();
    assert_eq!(image.digest, made.digest());
    store.remove(&name, &[]).await.unwrap();
    store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    for dir in ["blobs/sha256", "layers", "images", "partial", "tmp"] {
        assert!(names(&root.join(dir)).is_empty(), "{dir}");
    }
    shown.is_ok()
}
