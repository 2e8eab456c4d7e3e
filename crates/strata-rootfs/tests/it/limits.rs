//! Disk limits are enforced, and released.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rustix::io::Errno;
use strata_rootfs::{DiskLimits, RootError, RootOptions, Roots};

use crate::world::{World, mounted, names, privately, run, wait_until};

const LIMIT: u64 = 32_000_000;

/// Writes to a file until it is refused; gives how much went in, and the error.
fn fill(path: &Path) -> (u64, Errno) {
    let mut file = File::create(path).unwrap();
    let block = vec![0x5a; 256 * 1024];
    let mut written = 0;
    let refused = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
    while written < 20 * LIMIT {
        match file.write(&block) {
            Ok(count) => written += count as u64,
            Err(error) => return (written, refused(error)),
        }
        // Some file systems find out only when they give out the room.
        if written.is_multiple_of(16 * block.len() as u64)
            && let Err(error) = file.sync_all()
        {
            return (written, refused(error));
        }
    }
    panic!("{written} bytes went into {}", path.display());
}

fn is_enforced(world: &World, roots: &Roots) {
    let layers = [world.layer("one", &[("image", "text")])];
    roots.create("pod", Some(LIMIT)).unwrap();
    roots.create("pod", Some(LIMIT)).unwrap();
    let empty = roots.usage("pod").unwrap();
    assert_eq!(empty.limit, Some(LIMIT));
    assert!(empty.bytes < 2_000_000, "{empty:?}");

    let mount = roots.mount("pod", &layers, RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        fs::write(root.join("kept"), "kept").unwrap();
        let (written, refused) = fill(&root.join("big"));
        assert!([Errno::NOSPC, Errno::DQUOT].contains(&refused), "{refused}");
        let near = LIMIT * 90 / 100..LIMIT * 110 / 100;
        assert!(
            near.contains(&written),
            "{written} of {LIMIT} bytes went in"
        );
        // What is deleted is free again.
        fs::remove_file(root.join("big")).unwrap();
        run("sync", &["-f", root.to_str().unwrap()]);
        fs::write(root.join("again"), vec![1; 4_000_000]).unwrap();
        run("sync", &["-f", root.to_str().unwrap()]);
    });
    let used = roots.usage("pod").unwrap();
    assert!((4_000_000..12_000_000).contains(&used.bytes), "{used:?}");

    // A pod that starts again finds its files.
    let mount = roots.mount("pod", &layers, RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        assert_eq!(fs::read_to_string(root.join("kept")).unwrap(), "kept");
    });
    roots.remove("pod").unwrap();
    assert_eq!(roots.list().unwrap(), [""; 0]);
}

#[test]
fn by_a_file_system_in_a_file() {
    let world = World::new();
    let roots = world.roots();
    assert_eq!(roots.disk_limits(), &DiskLimits::Loop);
    is_enforced(&world, &roots);
    world.is_clean();
}

#[test]
fn by_a_btrfs_subvolume() {
    let world = World::new();
    privately(|| {
        let disk = mounted(&world, &["mkfs.btrfs", "-q"], "loop").unwrap();
        let path = disk.to_str().unwrap();
        let roots = Roots::open(&disk.join("roots")).unwrap();
        // Quotas are not ours to turn on.
        assert_eq!(roots.disk_limits(), &DiskLimits::Loop);
        is_enforced(&world, &roots);
        drop(roots);
        run("btrfs", &["quota", "enable", path]);
        let roots = Roots::open(&disk.join("roots")).unwrap();
        assert_eq!(roots.disk_limits(), &DiskLimits::Btrfs);
        is_enforced(&world, &roots);
        assert_eq!(run("btrfs", &["subvolume", "list", path]), "");
    });
}

/// Project quotas need a kernel with them; on others this test prints that.
fn by_a_project(make: &[&str], options: &str) {
    let world = World::new();
    privately(|| {
        let disk = match mounted(&world, make, options) {
            Ok(disk) => disk,
            Err(said) => return println!("not tested: no project quotas here: {said}"),
        };
        let roots = Roots::open(&disk.join("roots")).unwrap();
        if roots.disk_limits() != &DiskLimits::Project {
            return println!("not tested: this kernel ignores {options}");
        }
        is_enforced(&world, &roots);
        // Two limits at once, known again after a restart.
        roots.create("a", Some(LIMIT)).unwrap();
        drop(roots);
        let roots = Roots::open(&disk.join("roots")).unwrap();
        roots.create("b", Some(LIMIT)).unwrap();
        let of = |id| fs::read_to_string(disk.join(format!("roots/{id}/limit"))).unwrap();
        assert_ne!(of("a"), of("b"));
        for id in ["a", "b"] {
            roots.remove(id).unwrap();
        }
        is_enforced(&world, &roots);
    });
}

#[test]
fn by_a_project_of_ext4() {
    let make = [
        "mkfs.ext4",
        "-q",
        "-O",
        "quota,project",
        "-E",
        "quotatype=prjquota",
    ];
    by_a_project(&make, "loop,prjquota");
}

#[test]
fn by_a_project_of_xfs() {
    by_a_project(&["mkfs.xfs", "-q"], "loop,prjquota");
}

#[test]
fn a_root_in_a_file_is_mounted_once_at_a_time() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", Some(LIMIT)).unwrap();
    let first = roots.mount("pod", &[], RootOptions::default()).unwrap();
    let second = roots.mount("pod", &[], RootOptions::default()).unwrap_err();
    assert!(matches!(second, RootError::Busy { .. }), "{second}");
    drop(first);
    roots.mount("pod", &[], RootOptions::default()).unwrap();
}

#[test]
fn full_disk_is_reported_and_leaves_nothing() {
    let world = World::new();
    privately(|| {
        let disk = mounted(&world, &["mkfs.ext4", "-q", "-m", "0"], "loop").unwrap();
        let roots = Roots::open(&disk.join("roots")).unwrap();
        roots.create("before", Some(LIMIT)).unwrap();
        roots.remove("before").unwrap();
        // To the last block: large files leave small gaps.
        for size in ["1M", "4k"] {
            let script = format!(
                "dd if=/dev/zero of='{}/fill{size}' bs={size}",
                disk.display()
            );
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert!(!output.status.success());
        }
        for limit in [None, Some(LIMIT)] {
            let full = roots.create("pod", limit).unwrap_err();
            assert!(matches!(full, RootError::DiskFull { .. }), "{full:?}");
        }
        assert_eq!(roots.list().unwrap(), [""; 0]);
        assert_eq!(names(&disk.join("roots/.tmp")), [""; 0]);
    });
}

#[test]
fn a_limit_that_holds_nothing_is_refused() {
    let world = World::new();
    let small = world.roots().create("pod", Some(1000)).unwrap_err();
    assert!(matches!(small, RootError::LimitTooSmall { .. }), "{small}");
}

#[test]
fn many_roots_at_once_need_many_loop_devices() {
    let world = World::new();
    let roots = world.roots();
    let mounts: Vec<_> = std::thread::scope(|scope| {
        let make = |number| {
            let roots = &roots;
            move || {
                let id = format!("pod-{number}");
                roots.create(&id, Some(LIMIT)).unwrap();
                roots.mount(&id, &[], RootOptions::default()).unwrap()
            }
        };
        let threads: Vec<_> = (0..12).map(|number| scope.spawn(make(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(world.traces().len(), 12);
    drop(mounts);
    wait_until("the loop devices are free", || match world.traces().len() {
        0 => Ok(()),
        count => Err(format!("{count} are not")),
    });
}
