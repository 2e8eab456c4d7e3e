//! The disk of the images: one image fills neither what it may use nor what is
//! left to others.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::disk::Disk;
use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::{names, store_with};
use strata_image::{
    DiskReserve, LayoutSource, PruneGoal, PullOptions, Reference, Source, Store, StoreError,
    StoreOptions, UnpackError,
};

/// Layers of this many mebibytes of zeroes each, which pack to almost nothing.
fn zeroes(layers: u8, mebibytes: usize) -> Vec<Layer> {
    let data = vec![0; mebibytes << 20];
    let layer = |number: u8| Layer::new().file(&format!("zeroes{number}"), &data);
    (0..layers).map(layer).collect()
}

async fn pull(store: &Store, layout: &Path) -> Result<(), StoreError> {
    let reference: Reference = format!("oci:{}:v1", layout.display()).parse().unwrap();
    let source: Arc<dyn Source> = Arc::new(LayoutSource::new(layout, Some("v1".into())));
    let pulled = store
        .pull(&reference, &source, PullOptions::default())
        .await;
    pulled.map(drop)
}

fn options() -> StoreOptions {
    let mut options = StoreOptions {
        reserve: DiskReserve::NONE,
        ..StoreOptions::default()
    };
    // Zeroes are what is tested with; the bound on bombs is not the subject.
    options.limits.ratio = u64::MAX;
    options
}

/// Nothing of an image that failed is left, once garbage is removed.
async fn assert_gone(store: &Store, root: &Path) {
    assert!(names(&root.join("tmp")).is_empty());
    store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    for dir in ["layers", "blobs/sha256", "partial", "tmp"] {
        assert!(names(&root.join(dir)).is_empty(), "{dir}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_layers_leave_the_reserve_of_the_disk_free() {
    let world = tempfile::tempdir().unwrap();
    BuiltImage::new(&zeroes(40, 4)).write_layout(world.path(), &["v1"]);
    let disk = Disk::of("size=100m");
    let options = StoreOptions {
        reserve: DiskReserve::default(),
        ..options()
    };
    let root = disk.path().join("images");
    let store = store_with(&root, &options);
    let error = pull(&store, world.path()).await.unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), strata_types::ErrorKind::Exhausted);
    // Others write on, at once.
    fs::write(disk.path().join("other"), vec![7; 5 << 20]).unwrap();
    assert_gone(&store, &root).await;
    assert!(disk.used() < 6 << 20, "{}", disk.used());
    // A small one fits.
    BuiltImage::new(&zeroes(1, 4)).write_layout(world.path(), &["v1"]);
    pull(&store, world.path()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_entries_leave_inodes_free() {
    let world = tempfile::tempdir().unwrap();
    let layer = |number: u32| {
        (0..300).fold(Layer::new(), |layer, file| {
            layer.file(&format!("{number}-{file}"), b"")
        })
    };
    let layers: Vec<Layer> = (0..40).map(layer).collect();
    BuiltImage::new(&layers).write_layout(world.path(), &["v1"]);
    let disk = Disk::of("size=100m,nr_inodes=8000");
    let options = StoreOptions {
        reserve: DiskReserve::default(),
        ..options()
    };
    let root = disk.path().join("images");
    let store = store_with(&root, &options);
    let error = pull(&store, world.path()).await.unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    for number in 0..100 {
        fs::write(disk.path().join(format!("other{number}")), "x").unwrap();
    }
    assert_gone(&store, &root).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn download_leaves_the_reserve_of_the_disk_free() {
    let world = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..40_u64 << 17)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    let layer = Layer::new().file("data", &data);
    BuiltImage::packed(&[layer], <[u8]>::to_vec).write_layout(world.path(), &["v1"]);
    let disk = Disk::of("size=36m");
    let options = StoreOptions {
        reserve: DiskReserve::default(),
        ..options()
    };
    let root = disk.path().join("images");
    let store = store_with(&root, &options);
    let error = pull(&store, world.path()).await.unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    fs::write(disk.path().join("other"), vec![7; 3 << 20]).unwrap();
    assert_gone(&store, &root).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_of_an_image_are_bounded_in_sum() {
    let world = tempfile::tempdir().unwrap();
    let layout = world.path().join("layout");
    let root = world.path().join("images");
    let options = StoreOptions {
        image_bytes: 9 << 20,
        ..options()
    };
    let store = store_with(&root, &options);
    BuiltImage::new(&zeroes(4, 2)).write_layout(&layout, &["v1"]);
    pull(&store, &layout).await.unwrap();
    // Those that are there count, too.
    BuiltImage::new(&zeroes(5, 2)).write_layout(&layout, &["v1"]);
    let error = pull(&store, &layout).await.unwrap_err();
    let StoreError::Unpack { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(source, UnpackError::ImageTooLarge(_)), "{error}");
    assert!(error.is_out_of_space());
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), strata_types::ErrorKind::Invalid);
    store.prune(PruneGoal::Garbage, &[]).await.unwrap();
    assert_eq!(names(&root.join("layers")).len(), 4);
}
