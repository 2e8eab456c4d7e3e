//! Looks at a tree as closely as the system allows.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// All that is in a directory, by path.
pub(crate) fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.symlink_metadata().expect("a file").is_dir() {
                pending.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Everything about everything in a directory, as text that can be compared.
pub(crate) fn portrait(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut numbers = BTreeMap::new();
    let mut portrait = BTreeMap::new();
    portrait.insert(PathBuf::from("."), of(root, &mut numbers));
    for path in walk(root) {
        let name = path.strip_prefix(root).expect("below the root").to_owned();
        portrait.insert(name, of(&path, &mut numbers));
    }
    portrait
}

fn of(path: &Path, numbers: &mut BTreeMap<u64, usize>) -> String {
    let meta = path.symlink_metadata().expect("a file");
    let kind = meta.file_type();
    let content = if kind.is_file() {
        format!("{:x}", Sha256::digest(fs::read(path).expect("bytes")))
    } else if kind.is_symlink() {
        format!("-> {:?}", fs::read_link(path).expect("a target"))
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("device {}", meta.rdev())
    } else {
        String::new()
    };
    let links = if kind.is_dir() { 0 } else { meta.nlink() };
    let next = numbers.len();
    let shared = (links > 1).then(|| *numbers.entry(meta.ino()).or_insert(next));
    format!(
        "{:o} {}:{} {} {}.{:09} x{links}{shared:?} {content} {:?}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        if kind.is_file() { meta.len() } else { 0 },
        meta.mtime(),
        meta.mtime_nsec(),
        attributes(path),
    )
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("a value");
            value.truncate(length);
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}

/// Fails with what differs, and not with two whole trees.
#[track_caller]
pub(crate) fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (portrait(a), portrait(b));
    let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let differ: Vec<_> = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| {
            format!(
                "{}\n  {:?}\n  {:?}",
                name.display(),
                a.get(name),
                b.get(name)
            )
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
