//! Trees that are deeper than the kernel takes paths: a process in a container
//! can make them, and must not stop the backup of all others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::common::{World, ask, look, make, restore, save, verify};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use strata_backup::{BackupRequest, Source};

const DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, DIR, Mode::empty()).expect("a directory")
}

fn down(dir: &OwnedFd, name: &str) -> OwnedFd {
    rustix::fs::openat(dir, name, DIR | OFlags::NOFOLLOW, Mode::empty()).expect("a directory")
}

/// Directories in each other with names of this length. Each holds two names of
/// one file and a link, listed before and after the next directory.
fn deep(root: &Path, levels: usize, length: usize) {
    fs::create_dir(root).expect("a directory");
    let mut here = open(root);
    for level in 0..levels {
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = rustix::fs::openat(&here, "a", new, Mode::RUSR).expect("a file");
        let mut file = fs::File::from(file);
        file.write_all(&make::noise(level as u64, 100))
            .expect("bytes");
        rustix::fs::linkat(&here, "a", &here, "z", AtFlags::empty()).expect("a name");
        rustix::fs::symlinkat("a", &here, "link").expect("a link");
        let name = name(level, length);
        let mode = Mode::from_raw_mode(0o700 + (level as u32 % 8));
        rustix::fs::mkdirat(&here, &name, mode).expect("a directory");
        rustix::fs::chmodat(&here, &name, mode, AtFlags::empty()).expect("a mode");
        here = down(&here, &name);
    }
}

fn name(level: usize, length: usize) -> String {
    format!("d{level:0>width$}", width = length - 1)
}

fn names(dir: &OwnedFd) -> Vec<String> {
    let entries = Dir::read_from(dir).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_owned());
    let mut names: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort();
    names
}

/// How many levels two trees have in common in all that they hold; both end
/// there, unless the second is shorter.
fn same_levels(a: &Path, b: &Path, length: usize) -> usize {
    let (mut a, mut b) = (open(a), open(b));
    for level in 0.. {
        if names(&b).is_empty() {
            return level;
        }
        assert_eq!(names(&a), names(&b), "level {level}");
        let name = name(level, length);
        for one in ["a", "z", "link", &name] {
            let look = |dir| {
                let stat = rustix::fs::statat(dir, one, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.expect("a file");
                let size = if one == name { 0 } else { stat.st_size };
                (stat.st_mode, size, stat.st_mtime, stat.st_mtime_nsec)
            };
            assert_eq!(look(&a), look(&b), "{one} of level {level}");
        }
        let read = |dir| {
            let file = rustix::fs::openat(dir, "z", OFlags::RDONLY, Mode::empty());
            let mut bytes = Vec::new();
            let read = fs::File::from(file.expect("a file")).read_to_end(&mut bytes);
            read.expect("bytes");
            bytes
        };
        assert_eq!(read(&a), read(&b), "level {level}");
        (a, b) = (down(&a, &name), down(&b, &name));
    }
    unreachable!("a tree without an end")
}

#[tokio::test]
async fn a_tree_deeper_than_paths_are_long_comes_back() {
    let world = World::new();
    let source = world.path("source");
    deep(&source, 300, 50);
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    assert_eq!(backup.files, 900);
    let to = world.path("restored");
    let restored = restore(&repository, "latest", "/volumes/web", &to).await;
    assert_eq!(restored.files, 900);
    assert_eq!(same_levels(&source, &to, 50), 300);
    assert!(verify(&repository, &backup.id, 100).await.is_sound());

    let again = save(&repository, ask("op-2", &source, 1_700_000_060_000)).await;
    assert!(again.new_bytes < 10_000, "{again:?}");
    world.check();
}

#[tokio::test]
async fn a_tree_without_measure_is_cut_and_all_else_is_saved() {
    let world = World::new();
    let (endless, web) = (world.path("endless"), world.path("web"));
    deep(&endless, 200, 255);
    make::plain(&web, 20, 0);
    let source = |path: &Path, at: &str| Source {
        path: path.to_owned(),
        at: at.to_owned(),
    };
    let ask = BackupRequest {
        sources: vec![
            source(&endless, "/volumes/endless"),
            source(&web, "/volumes/web"),
        ],
        ..ask("op-1", &web, 1_700_000_000_000)
    };
    let repository = world.repository();
    save(&repository, ask).await;
    let to = world.path("restored");
    restore(&repository, "latest", "/", &to).await;
    look::assert_same(&web, &to.join("volumes/web"));
    // A level has 256 bytes; the first that is over 32 KiB is left empty.
    assert_eq!(same_levels(&endless, &to.join("volumes/endless"), 255), 129);
}
