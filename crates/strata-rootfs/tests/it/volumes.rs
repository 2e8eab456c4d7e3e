//! Directories and files of the host, inside.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use strata_rootfs::{BindOptions, Owner, RootError, bind, bind_fd, shm};

use crate::world::{World, attach, names, privately};

#[test]
fn a_directory_is_shared_both_ways() {
    let world = World::new();
    let volume = world.layer("volume", &[("from-host", "1")]);
    let mount = bind(&volume, BindOptions::default()).unwrap();
    world.inside(mount, |inside| {
        assert_eq!(names(inside), ["from-host"]);
        fs::write(inside.join("from-pod"), "2").unwrap();
    });
    assert_eq!(names(&volume), ["from-host", "from-pod"]);
}

#[test]
fn a_read_only_volume_refuses_and_the_directory_itself_does_not() {
    let world = World::new();
    let volume = world.layer("volume", &[("file", "")]);
    let options = BindOptions {
        read_only: true,
        no_exec: true,
        no_dev: true,
        no_suid: true,
        ..BindOptions::default()
    };
    let program = volume.join("program");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    world.inside(bind(&volume, options).unwrap(), |inside| {
        let refused = fs::write(inside.join("file"), "x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        let refused = Command::new(inside.join("program")).status().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        fs::write(volume.join("file"), "host").unwrap();
    });
}

#[test]
fn a_single_file_can_be_a_volume() {
    let world = World::new();
    let file = world.layer("volume", &[("hosts", "names")]).join("hosts");
    let target = world.layer("target", &[("place", "")]).join("place");
    let open = fs::File::open(&file).unwrap();
    for mount in [
        bind(&file, BindOptions::default()).unwrap(),
        bind_fd(open.as_fd(), BindOptions::default()).unwrap(),
    ] {
        privately(|| {
            attach(&mount, &target);
            assert_eq!(fs::read_to_string(&target).unwrap(), "names");
        });
    }
}

#[test]
fn mounts_below_come_along_only_when_asked_and_later_ones_never() {
    let world = World::new();
    let volume = world.layer("volume", &[("below/covered", ""), ("later/covered", "")]);
    privately(|| {
        attach(
            &shm(1 << 20, Owner::default()).unwrap(),
            &volume.join("below"),
        );
        fs::write(volume.join("below/mounted"), "").unwrap();
        for (recursive, seen) in [(false, "covered"), (true, "mounted")] {
            let options = BindOptions {
                recursive,
                ..BindOptions::default()
            };
            let mount = bind(&volume, options).unwrap();
            attach(
                &shm(1 << 20, Owner::default()).unwrap(),
                &volume.join("later"),
            );
            attach(&mount, &world.path("inside"));
            assert_eq!(names(&world.path("inside/below")), [seen]);
            assert_eq!(names(&world.path("inside/later")), ["covered"]);
            for path in [world.path("inside"), volume.join("later")] {
                rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
            }
        }
    });
}

#[test]
fn a_volume_that_is_not_there_is_named() {
    let world = World::new();
    let error = bind(&world.path("nowhere"), BindOptions::default()).unwrap_err();
    assert!(matches!(error, RootError::Io { .. }));
    assert!(error.to_string().contains("nowhere"), "{error}");
}
