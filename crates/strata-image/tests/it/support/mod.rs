//! What the tests share: layers, images and registries that they make.

// Each test uses some of it only.
#![allow(dead_code, unreachable_pub)]

pub mod disk;
pub mod image;
pub mod layer;
pub mod registry;
pub mod tree;

use strata_image::{DiskReserve, Limits, Store, StoreOptions};

/// A store that does not wait long, on a disk however full.
pub fn store(root: &std::path::Path) -> Store {
    let options = StoreOptions {
        reserve: DiskReserve::NONE,
        ..StoreOptions::default()
    };
    store_with(root, &options)
}

pub fn store_with(root: &std::path::Path, options: &StoreOptions) -> Store {
    let options = StoreOptions {
        first_wait: std::time::Duration::from_millis(1),
        ..options.clone()
    };
    Store::open(root, options).unwrap()
}

pub fn small_limits() -> Limits {
    Limits {
        bytes: 4 << 20,
        entries: 100,
        path: 512,
        ratio: 50,
        ratio_from: 1 << 20,
    }
}

/// The names in a directory, sorted.
pub fn names(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
