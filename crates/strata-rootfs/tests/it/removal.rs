//! Whatever a pod leaves behind goes, and nothing else with it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, IFlags, Mode, OFlags, ioctl_setflags, mkdirat, mknodat, openat};
use strata_rootfs::Roots;

use crate::world::{World, names};

fn leaves_nothing(world: &World, roots: &Roots) {
    roots.remove("pod").unwrap();
    assert!(!world.path("roots/pod").exists());
    assert_eq!(names(&world.path("roots/.gone")), [""; 0]);
}

#[test]
fn locked_files_and_directories_without_permission_go() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let upper = world.path("roots/pod/upper");
    fs::create_dir_all(upper.join("locked/below")).unwrap();
    fs::create_dir(upper.join("shut")).unwrap();
    fs::write(upper.join("shut/file"), "").unwrap();
    fs::write(upper.join("locked/below/file"), "").unwrap();
    fs::write(upper.join("journal"), "").unwrap();
    fs::set_permissions(upper.join("shut"), fs::Permissions::from_mode(0o0)).unwrap();
    for (path, flag) in [
        ("journal", IFlags::APPEND),
        ("locked/below/file", IFlags::IMMUTABLE),
        ("locked/below", IFlags::APPEND),
        ("locked", IFlags::IMMUTABLE),
        ("", IFlags::IMMUTABLE),
    ] {
        let file = fs::File::open(upper.join(path)).unwrap();
        ioctl_setflags(&file, flag).unwrap();
    }
    leaves_nothing(&world, &roots);
}

#[test]
fn a_tree_deeper_than_any_path_goes() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, world.path("roots/pod/upper"), flags, Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for depth in 0..3000 {
        mkdirat(&dir, &name, Mode::RWXU).unwrap();
        // Names that the removal itself would use.
        if depth % 500 == 0 {
            mkdirat(&dir, format!(".moved.{}", depth / 500 + 1), Mode::RWXU).unwrap();
        }
        dir = openat(&dir, &name, flags, Mode::empty()).unwrap();
    }
    drop(dir);
    assert!(roots.usage("pod").unwrap().at_least);
    leaves_nothing(&world, &roots);
}

#[test]
fn links_are_removed_and_not_followed_and_devices_not_opened() {
    let world = World::new();
    let outside = world.layer("outside", &[("precious", "")]);
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let upper = world.path("roots/pod/upper");
    symlink(&outside, upper.join("link")).unwrap();
    symlink("/", upper.join("root")).unwrap();
    fs::hard_link(outside.join("precious"), upper.join("hard")).unwrap();
    for (name, kind) in [("pipe", FileType::Fifo), ("socket", FileType::Socket)] {
        mknodat(CWD, upper.join(name), kind, Mode::RWXU, 0).unwrap();
    }
    // A device without a driver: opening it would fail.
    mknodat(
        CWD,
        upper.join("odd"),
        FileType::BlockDevice,
        Mode::RWXU,
        0xffff,
    )
    .unwrap();
    leaves_nothing(&world, &roots);
    assert_eq!(names(&outside), ["precious"]);
}

#[test]
fn very_many_files_go() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let upper = world.path("roots/pod/upper");
    fs::write(upper.join("0"), "").unwrap();
    for number in 1..30_000 {
        fs::hard_link(upper.join("0"), upper.join(number.to_string())).unwrap();
    }
    leaves_nothing(&world, &roots);
}
