//! `/dev` works from inside.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use strata_rootfs::{Owner, TmpfsOptions, devices, devpts, emulator_devices, shm, tmpfs};

use crate::world::{World, attach, names};

#[test]
fn an_emulator_has_kvm_only_when_it_is_given_and_for_its_user_alone() {
    let world = World::new();
    let user = Owner {
        uid: 1_000_000_007,
        gid: 1_000_000_007,
    };
    let mount = emulator_devices(None, user).unwrap();
    world.inside(mount, |dev| {
        assert_eq!(names(dev), ["null", "urandom", "zero"]);
    });
    let number = rustix::fs::makedev(10, 232);
    let mount = emulator_devices(Some(number), user).unwrap();
    world.inside(mount, |dev| {
        assert_eq!(names(dev), ["kvm", "null", "urandom", "zero"]);
        let kvm = fs::metadata(dev.join("kvm")).unwrap();
        assert_eq!((kvm.uid(), kvm.gid()), (user.uid, user.gid));
        assert_eq!((kvm.mode() & 0o777, kvm.rdev()), (0o600, number));
        // Only root creates anything there.
        let top = fs::metadata(dev).unwrap();
        assert_eq!((top.uid(), top.mode() & 0o777), (0, 0o755));
    });
}

#[test]
fn devices_work_and_are_the_pods_own() {
    let world = World::new();
    let mount = devices(Owner::default()).unwrap();
    world.inside(mount, |dev| {
        let expected = [
            "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
            "stdout", "tty", "urandom", "zero",
        ];
        assert_eq!(names(dev), expected);
        let mut bytes = [0_u8; 32];
        File::open(dev.join("urandom"))
            .unwrap()
            .read_exact(&mut bytes)
            .unwrap();
        assert_ne!(bytes, [0; 32]);
        File::open(dev.join("zero"))
            .unwrap()
            .read_exact(&mut bytes)
            .unwrap();
        assert_eq!(bytes, [0; 32]);
        let open = |name| OpenOptions::new().write(true).open(dev.join(name)).unwrap();
        open("null").write_all(b"gone").unwrap();
        let full = open("full").write_all(b"no").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            let status = fs::metadata(dev.join(name)).unwrap();
            assert!(status.file_type().is_char_device());
            assert_eq!(status.mode() & 0o7777, 0o666);
        }
        fs::write(dev.join("own"), "can be written").unwrap();
        let too_much = fs::write(dev.join("much"), vec![1; 4 << 20]).unwrap_err();
        assert_eq!(too_much.kind(), ErrorKind::StorageFull);
    });
}

#[test]
fn terminals_are_the_pods_own() {
    let world = World::new();
    let (dev, pts) = (
        devices(Owner::default()).unwrap(),
        devpts(Owner::default()).unwrap(),
    );
    world.inside(dev, |dev| {
        attach(&pts, &dev.join("pts"));
        let _master = OpenOptions::new()
            .read(true)
            .write(true)
            .open(dev.join("ptmx"))
            .unwrap();
        assert_eq!(names(&dev.join("pts")), ["0", "ptmx"]);
    });
}

#[test]
fn memory_is_bounded_and_belongs_to_the_pods_root() {
    let world = World::new();
    let owner = Owner {
        uid: 100_000,
        gid: 200_000,
    };
    world.inside(shm(1 << 20, owner).unwrap(), |shm| {
        let status = fs::metadata(shm).unwrap();
        assert_eq!((status.uid(), status.gid()), (100_000, 200_000));
        assert_eq!(status.mode() & 0o7777, 0o1777);
        let full = fs::write(shm.join("much"), vec![1; 2 << 20]).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    });
    let options = TmpfsOptions {
        bytes: 1 << 20,
        mode: 0o750,
        owner,
        no_exec: false,
    };
    world.inside(tmpfs(options).unwrap(), |top| {
        assert_eq!(fs::metadata(top).unwrap().mode() & 0o7777, 0o750);
    });
    world.inside(devices(owner).unwrap(), |dev| {
        for name in ["null", "fd", "pts"] {
            let status = fs::symlink_metadata(dev.join(name)).unwrap();
            assert_eq!((status.uid(), status.gid()), (100_000, 200_000), "{name}");
        }
    });
}
