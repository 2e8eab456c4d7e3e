//! What a pod sees of its layers, and where its writes go.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use strata_rootfs::{MountPoint, RootError, RootOptions};

use crate::world::{World, names, opaque, picture, whiteout};

#[test]
fn upper_layers_hide_and_take_away_what_is_below() {
    let world = World::new();
    let low = world.layer(
        "low",
        &[
            ("a", "low"),
            ("b", "low"),
            ("keep/x", "x"),
            ("shut/old", "old"),
        ],
    );
    let high = world.layer("high", &[("a", "high"), ("shut/new", "new")]);
    whiteout(&high.join("b"));
    opaque(&high.join("shut"));
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let mount = roots
        .mount("pod", &[low, high], RootOptions::default())
        .unwrap();
    world.inside(mount, |root| {
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "high");
        assert!(!root.join("b").exists());
        assert_eq!(names(&root.join("shut")), ["new"]);
        assert_eq!(names(&root.join("keep")), ["x"]);
    });
}

#[test]
fn writes_go_to_the_upper_only_and_stay_for_the_next_start() {
    let world = World::new();
    let layer = world.layer(
        "one",
        &[("etc/conf", "image"), ("doomed", ""), ("dir/in", "in")],
    );
    let before = picture(&layer);
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let layers = [layer.clone()];
    let mount = roots.mount("pod", &layers, RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        fs::write(root.join("etc/conf"), "pod").unwrap();
        fs::write(root.join("new"), "new").unwrap();
        fs::remove_file(root.join("doomed")).unwrap();
        fs::rename(root.join("dir"), root.join("moved")).unwrap();
    });
    let mount = roots.mount("pod", &layers, RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        assert_eq!(fs::read_to_string(root.join("etc/conf")).unwrap(), "pod");
        assert_eq!(fs::read_to_string(root.join("moved/in")).unwrap(), "in");
        assert!(root.join("new").exists() && !root.join("doomed").exists());
    });
    assert_eq!(picture(&layer), before);
    let usage = roots.usage("pod").unwrap();
    assert!(usage.bytes >= 8192 && usage.bytes < 200_000, "{usage:?}");
    assert!(usage.limit.is_none() && !usage.at_least);
}

#[test]
fn pods_with_the_same_layers_do_not_see_each_other() {
    let world = World::new();
    let layers = [world.layer("one", &[("file", "image")])];
    let roots = world.roots();
    for id in ["a", "b"] {
        roots.create(id, None).unwrap();
        let mount = roots.mount(id, &layers, RootOptions::default()).unwrap();
        world.inside(mount, |root| {
            assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "image");
            fs::write(root.join("file"), id).unwrap();
        });
    }
}

#[test]
fn a_read_only_root_refuses_and_has_its_mount_points() {
    let world = World::new();
    let layers = [world.layer("one", &[("bin/program", "")])];
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let points = [
        MountPoint {
            path: Path::new("/data/deep"),
            file: false,
        },
        MountPoint {
            path: Path::new("/etc/app.conf"),
            file: true,
        },
    ];
    let options = RootOptions {
        read_only: true,
        mount_points: &points,
        ..RootOptions::default()
    };
    let mount = roots.mount("pod", &layers, options).unwrap();
    world.inside(mount, |root| {
        let refused = fs::write(root.join("new"), "").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        assert!(root.join("proc").is_dir() && root.join("data/deep").is_dir());
        assert!(root.join("etc/resolv.conf").is_file() && root.join("etc/app.conf").is_file());
    });
    assert_eq!(names(&world.path("roots/pod/upper")), [""; 0]);
}

#[test]
fn an_image_without_layers_is_an_empty_root() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let mount = roots.mount("pod", &[], RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        assert_eq!(names(root), ["dev", "etc", "proc", "sys"]);
        fs::write(root.join("file"), "").unwrap();
    });
}

#[test]
fn a_hundred_and_twenty_seven_layers_with_long_paths() {
    let world = World::new();
    let layers: Vec<PathBuf> = (0..127)
        .map(|number| {
            let name = format!("{}/{}/{number}", "long".repeat(40), "path".repeat(40));
            world.layer(
                &name,
                &[("who", &number.to_string()), (&format!("f{number}"), "")],
            )
        })
        .collect();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let mount = roots.mount("pod", &layers, RootOptions::default()).unwrap();
    world.inside(mount, |root| {
        assert_eq!(fs::read_to_string(root.join("who")).unwrap(), "126");
        assert_eq!(
            names(root)
                .iter()
                .filter(|name| name.starts_with('f'))
                .count(),
            127
        );
    });
}

#[test]
fn detached_mount_is_invisible_outside_and_ends_when_dropped() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    let mount = roots.mount("pod", &[], RootOptions::default()).unwrap();
    assert_eq!(world.traces(), [""; 0]);
    drop(mount);
    roots.remove("pod").unwrap();
    roots.remove("pod").unwrap();
    assert_eq!(roots.list().unwrap(), [""; 0]);
}

#[test]
fn creating_again_needs_the_same_limit_and_a_plain_name() {
    let world = World::new();
    let roots = world.roots();
    roots.create("pod", None).unwrap();
    roots.create("pod", None).unwrap();
    let other = roots.create("pod", Some(8_000_000)).unwrap_err();
    assert!(matches!(other, RootError::OtherLimit { .. }), "{other}");
    for id in ["", ".hidden", "a/b", "..", "a b", &"x".repeat(129)] {
        let bad = roots.create(id, None).unwrap_err();
        assert!(matches!(bad, RootError::BadId { .. }), "{bad}");
    }
    let gone = roots
        .mount("other", &[], RootOptions::default())
        .unwrap_err();
    assert!(matches!(gone, RootError::NotFound { .. }), "{gone}");
    assert!(matches!(
        roots.usage("other").unwrap_err(),
        RootError::NotFound { .. }
    ));
    assert_eq!(names(&world.path("roots/.tmp")), [""; 0]);
}

#[test]
fn roots_are_locked_by_one_process_at_a_time() {
    let world = World::new();
    let roots = world.roots();
    let second = strata_rootfs::Roots::open(&world.path("roots"))
        .err()
        .unwrap();
    assert!(matches!(second, RootError::InUse { .. }), "{second}");
    drop(roots);
    world.roots();
}
