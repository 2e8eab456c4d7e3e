//! Volumes of the node: shared by several at once, limited together, kept.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use strata_rootfs::{BindOptions, DiskLimits, RootError, Volumes};

use crate::world::{World, attach, mounted, names, privately, run};

const SIZE: u64 = 16_000_000;

fn mount(volumes: &Volumes, read_only: bool) -> OwnedFd {
    let options = BindOptions {
        read_only,
        no_suid: true,
        no_dev: true,
        ..BindOptions::default()
    };
    volumes.mount("data", options).unwrap()
}

/// How much goes in until it is refused.
fn fill(path: &Path) -> u64 {
    let mut file = File::create(path).unwrap();
    let block = vec![0x5a; 128 * 1024];
    for written in 0..1000 {
        let refused = file.write_all(&block).and_then(|()| file.sync_all());
        if let Err(error) = refused {
            let errno = Errno::from_io_error(&error).unwrap();
            assert!([Errno::NOSPC, Errno::DQUOT].contains(&errno), "{errno}");
            return written * block.len() as u64;
        }
    }
    panic!("nothing refuses it");
}

fn is_kept_and_shared(world: &World, dir: &Path, size: Option<u64>) {
    let volumes = Volumes::open(dir).unwrap();
    assert!(!volumes.contains("data"));
    volumes.create("data", size).unwrap();
    volumes.create("data", size).unwrap();
    let other = volumes.create("data", Some(2 * SIZE)).unwrap_err();
    assert!(matches!(other, RootError::OtherLimit { .. }), "{other}");
    assert!(volumes.contains("data"));
    assert_eq!(volumes.usage("data").unwrap().limit, size);
    let (one, two) = (world.path("one"), world.path("two"));
    for place in [&one, &two] {
        fs::create_dir_all(place).unwrap();
    }
    // Both at once, the second by another daemon than the first.
    privately(|| {
        attach(&mount(&volumes, false), &one);
        drop(volumes);
        let volumes = Volumes::open(dir).unwrap();
        attach(&mount(&volumes, true), &two);
        assert_eq!(names(&one), [""; 0]);
        fs::write(one.join("file"), "text").unwrap();
        assert_eq!(fs::read_to_string(two.join("file")).unwrap(), "text");
        let refused = fs::write(two.join("file"), "no").unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::ROFS));
        if let Some(size) = size {
            let third = mount(&volumes, false);
            let written = fill(&one.join("big"));
            let near = size * 85 / 100..size * 115 / 100;
            assert!(near.contains(&written), "{written} of {size} went in");
            drop(third);
            run("sync", &["-f", one.to_str().unwrap()]);
            let used = volumes.usage("data").unwrap().bytes;
            assert!(used > size * 80 / 100, "{used} of {size}");
            fs::remove_file(one.join("big")).unwrap();
        }
    });
    let volumes = Volumes::open(dir).unwrap();
    assert_eq!(volumes.list().unwrap(), ["data"]);
    assert!(
        volumes
            .created("data")
            .unwrap()
            .elapsed()
            .unwrap()
            .as_secs()
            < 60
    );
    world.inside(mount(&volumes, false), |inside| {
        assert_eq!(names(inside), ["file"]);
    });
    volumes.remove("data").unwrap();
    volumes.remove("data").unwrap();
    assert_eq!(volumes.list().unwrap(), [""; 0]);
}

#[test]
fn without_a_size() {
    let world = World::new();
    is_kept_and_shared(&world, &world.path("volumes"), None);
}

#[test]
fn by_a_file_system_in_a_file() {
    let world = World::new();
    is_kept_and_shared(&world, &world.path("volumes"), Some(SIZE));
    world.is_clean();
}

#[test]
fn by_a_btrfs_subvolume() {
    let world = World::new();
    privately(|| {
        let disk = mounted(&world, &["mkfs.btrfs", "-q"], "loop").unwrap();
        run("btrfs", &["quota", "enable", disk.to_str().unwrap()]);
        let dir = disk.join("volumes");
        let limits = Volumes::open(&dir).unwrap().disk_limits().clone();
        assert_eq!(limits, DiskLimits::Btrfs);
        is_kept_and_shared(&world, &dir, Some(SIZE));
    });
}

#[test]
fn many_take_the_same_one_at_the_same_time() {
    let world = World::new();
    let volumes = Volumes::open(&world.path("volumes")).unwrap();
    volumes.create("data", Some(SIZE)).unwrap();
    let mounts: Vec<OwnedFd> = std::thread::scope(|scope| {
        let take = || scope.spawn(|| mount(&volumes, false));
        let threads: Vec<_> = (0..12).map(|_| take()).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    assert_eq!(world.traces().len(), 1);
    drop(mounts);
}

#[test]
fn volume_that_was_filled_in_part_is_filled_again() {
    let world = World::new();
    let home = world.path("volumes");
    let volumes = Volumes::open(&home).unwrap();
    volumes.create("data", None).unwrap();
    let write = |to: &OwnedFd, name: &str| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        openat(to, name, flags, Mode::from(0o644)).unwrap();
    };
    let failed = volumes.fill("data", false, |to| {
        write(to, "half");
        Err(RootError::NotFound { id: "x".into() })
    });
    assert!(failed.is_err());
    // As after a death: another process opens it.
    drop(volumes);
    let volumes = Volumes::open(&home).unwrap();
    let data = home.join("data/data");
    let fill = |unused: bool, name: &str| {
        let copy = |to: &OwnedFd| {
            write(to, name);
            Ok(())
        };
        volumes.fill("data", unused, copy).unwrap();
        names(&data)
    };
    assert_eq!(fill(false, "whole"), ["whole"]);
    assert_eq!(fill(true, "other"), ["whole"], "it has content");
    fs::remove_file(data.join("whole")).unwrap();
    assert_eq!(fill(false, "other"), [""; 0], "a pod has it");
    assert_eq!(fill(true, "other"), ["other"]);
    // What others put into a new one stays.
    volumes.create("used", None).unwrap();
    fs::write(home.join("used/data/own"), "x").unwrap();
    let never = |_: &OwnedFd| panic!("it is not empty");
    volumes.fill("used", true, never).unwrap();
}
