//! The way of older kernels, walked on this one too.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::mount::MountAttrFlags;

use crate::attributes::clone_path;
use crate::overlay::{Overlay, Place};
use crate::private::mount_overlay;

fn dir(home: &Path, name: &str) -> PathBuf {
    let path = home.join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

/// A detached mount can be looked into through its descriptor.
fn open(mount: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(mount, name, flags, Mode::RUSR)
}

fn overlay(home: &Path, detached: bool, upper: bool) -> Overlay {
    let place = |path: PathBuf| {
        if detached {
            Place::Detached(clone_path(&path, false).unwrap())
        } else {
            Place::Directory(path)
        }
    };
    let lowers = (0..200)
        .map(|number| {
            let layer = dir(home, &format!("layer-{number}"));
            fs::write(layer.join(format!("file-{number}")), "").unwrap();
            place(layer)
        })
        .collect();
    dir(home, "root/upper");
    dir(home, "root/work");
    Overlay {
        lowers,
        upper: upper.then(|| place(home.join("root"))),
        mapped: None,
        attributes: if upper {
            MountAttrFlags::empty()
        } else {
            MountAttrFlags::MOUNT_ATTR_RDONLY
        },
        creator: None,
    }
}

#[test]
fn private_overlay_equals_the_mounted_one() {
    for detached in [false, true] {
        for upper in [false, true] {
            let home = tempfile::tempdir_in("/var/tmp").unwrap();
            let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let overlay = overlay(home.path(), detached, upper);
            let place = dir(home.path(), "place");
            let mount = mount_overlay(&overlay, &place).unwrap();
            assert!(open(&mount, "file-0", OFlags::RDONLY).is_ok());
            assert!(open(&mount, "file-199", OFlags::RDONLY).is_ok());
            let new = open(&mount, "new", OFlags::CREATE | OFlags::WRONLY);
            assert_eq!(new.is_ok(), upper);
            assert_eq!(home.path().join("root/upper/new").exists(), upper);
            drop((new, mount));
            // Nothing of it was ever seen by this namespace.
            let after = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let ours = |table: &str| table.matches(home.path().to_str().unwrap()).count();
            assert_eq!((ours(&table), ours(&after)), (0, 0));
            assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        }
    }
}

#[test]
fn private_overlay_is_created_by_the_requested_owner() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut overlay = overlay(home.path(), true, true);
    overlay.creator = Some(crate::Owner {
        uid: 100_000,
        gid: 100_000,
    });
    drop(mount_overlay(&overlay, &dir(home.path(), "place")).unwrap());
    let work = fs::File::open(home.path().join("root/work/work")).unwrap();
    assert_eq!(fstat(work.as_fd()).unwrap().st_uid, 100_000);
    // This thread, and every other, still has its user.
    assert!(rustix::process::geteuid().is_root());
    assert_eq!(
        rustix::process::dumpable_behavior().unwrap(),
        rustix::process::DumpableBehavior::Dumpable
    );
}
