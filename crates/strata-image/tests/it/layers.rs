//! Honest layers: everything that a builder puts into one comes out of it.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::support::layer::{Entry, Layer, gzip, zstd};
use strata_image::{Limits, unpack};

/// Unpacks into a directory that lives as long as the first of the two.
fn unpacked(layer: &Layer, packed: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let world = tempfile::tempdir().unwrap();
    let into = world.path().join("layer");
    let go_on = |_| ControlFlow::Continue(());
    unpack(packed, &into, layer.diff_id(), &Limits::default(), &go_on).unwrap();
    (world, into)
}

fn plain(layer: &Layer) -> (tempfile::TempDir, PathBuf) {
    unpacked(layer, &layer.tar())
}

fn opaque(path: &Path) -> bool {
    let mut value = [0; 8];
    rustix::fs::lgetxattr(path, "trusted.overlay.opaque", &mut value).is_ok()
}

fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_char_device() && metadata.rdev() == 0)
}

#[test]
fn every_packing_gives_the_same() {
    let data: Vec<u8> = (0..1_500_000_u32).map(|n| (n / 7) as u8).collect();
    let layer = Layer::new().dir("d").file("d/f", &data).file("e", b"");
    let tar = layer.tar();
    let (first, second) = tar.split_at(10_000);
    let members = [gzip(first), gzip(second)].concat();
    for packed in [tar.clone(), gzip(&tar), zstd(&tar), members] {
        let (_world, root) = unpacked(&layer, &packed);
        assert_eq!(fs::read(root.join("d/f")).unwrap(), data);
        assert_eq!(fs::metadata(root.join("e")).unwrap().len(), 0);
    }
}

#[test]
fn files_in_a_directory_with_the_group_bit_keep_their_group() {
    let layer = Layer::new()
        .entry(&Entry {
            path: b"mail",
            flag: b'5',
            mode: 0o2775,
            owner: (0, 8),
            ..Entry::default()
        })
        .file("mail/root", b"x")
        .file("mail/implied/file", b"x");
    let (_world, root) = plain(&layer);
    for path in ["mail/root", "mail/implied", "mail/implied/file"] {
        let metadata = fs::metadata(root.join(path)).unwrap();
        assert_eq!(metadata.gid(), 0, "{path}");
        assert_eq!(metadata.mode() & 0o7000, 0, "{path}");
    }
    assert_eq!(fs::metadata(root.join("mail")).unwrap().gid(), 8);
}

#[test]
fn owner_mode_time_and_attributes_are_kept() {
    let layer = Layer::new()
        .entry(&Entry {
            path: b"./",
            flag: b'5',
            mode: 0o711,
            mtime: 5,
            ..Entry::default()
        })
        .entry(&Entry {
            path: b"d",
            flag: b'5',
            mode: 0o1777,
            owner: (7, 8),
            mtime: 77,
            ..Entry::default()
        })
        .entry(&Entry {
            path: b"d/su",
            data: b"x",
            mode: 0o6755,
            owner: (1000, 1001),
            pax: &[
                ("mtime", b"12.5"),
                ("uid", b"70000"),
                ("SCHILY.xattr.user.note", b"hello\0there"),
                (
                    "SCHILY.xattr.security.capability",
                    b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                ),
            ],
            ..Entry::default()
        })
        .entry(&Entry {
            path: b"d/link",
            flag: b'2',
            link: b"/absolute/is/fine",
            owner: (3, 4),
            mtime: 9,
            pax: &[("SCHILY.xattr.trusted.note", b"on a link")],
            ..Entry::default()
        });
    let (_world, root) = plain(&layer);
    let of = |path: &str| fs::symlink_metadata(root.join(path)).unwrap();
    let su = of("d/su");
    assert_eq!(
        (su.mode() & 0o7777, su.uid(), su.gid()),
        (0o6755, 70_000, 1001)
    );
    assert_eq!((su.mtime(), su.mtime_nsec()), (12, 500_000_000));
    let dir = of("d");
    assert_eq!((dir.mode() & 0o7777, dir.uid(), dir.gid()), (0o1777, 7, 8));
    assert_eq!(dir.mtime(), 77);
    assert_eq!((of("").mode() & 0o7777, of("").mtime()), (0o711, 5));
    let link = of("d/link");
    assert_eq!((link.uid(), link.gid(), link.mtime()), (3, 4, 9));
    assert_eq!(
        fs::read_link(root.join("d/link")).unwrap(),
        Path::new("/absolute/is/fine")
    );
    let attribute = |path: &str, name: &str| {
        let mut value = [0; 64];
        let length = rustix::fs::lgetxattr(root.join(path), name, &mut value[..]).unwrap();
        value[..length].to_vec()
    };
    assert_eq!(attribute("d/su", "user.note"), b"hello\0there");
    assert_eq!(attribute("d/su", "security.capability").len(), 20);
    assert_eq!(attribute("d/link", "trusted.note"), b"on a link");
}

#[test]
fn devices_pipes_hard_links_and_long_names() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let device = |path, flag, device| Entry {
        path,
        flag,
        device,
        mode: 0o620,
        ..Entry::default()
    };
    let layer = Layer::new()
        .entry(&device(b"null", b'3', (1, 3)))
        .entry(&device(b"disk", b'4', (7, 300)))
        .entry(&device(b"pipe", b'6', (0, 0)))
        .file(&long, b"long")
        .file("a", b"shared")
        .hard_link("sub/b", "./a")
        .hard_link("a", "a");
    let (_world, root) = plain(&layer);
    let of = |path: &str| fs::symlink_metadata(root.join(path)).unwrap();
    assert!(of("null").file_type().is_char_device());
    assert_eq!(of("null").rdev(), rustix::fs::makedev(1, 3));
    assert_eq!(of("disk").rdev(), rustix::fs::makedev(7, 300));
    assert_eq!(of("disk").mode() & 0o7777, 0o620);
    assert!(of("pipe").file_type().is_fifo());
    assert_eq!(fs::read(root.join(&long)).unwrap(), b"long");
    assert_eq!(of("a").ino(), of("sub/b").ino());
}

#[test]
fn holes_stay_holes() {
    let layer = Layer::new().entry(&Entry {
        path: b"holes",
        pax: &[
            ("GNU.sparse.major", b"0"),
            ("GNU.sparse.minor", b"1"),
            ("GNU.sparse.map", b"4096,3,1048576,2"),
            ("GNU.sparse.size", b"4194304"),
        ],
        data: b"abcde",
        ..Entry::default()
    });
    let (_world, root) = plain(&layer);
    let bytes = fs::read(root.join("holes")).unwrap();
    assert_eq!(bytes.len(), 4 << 20);
    assert_eq!(&bytes[4095..4100], b"\0abc\0");
    assert_eq!(&bytes[1 << 20..(1 << 20) + 3], b"de\0");
    assert!(fs::metadata(root.join("holes")).unwrap().blocks() * 512 < 1 << 20);
}

#[test]
fn whiteouts_speak_the_language_of_overlays() {
    let layer = Layer::new()
        .file("etc/.wh.gone", b"")
        .dir("var")
        .file("var/.wh..wh..opq", b"")
        .file("var/new", b"x")
        .hard_link("var/.wh.linked", "var/new")
        .file(".wh..wh.aufs", b"")
        .dir(".wh..wh.plnk");
    let (_world, root) = plain(&layer);
    assert!(is_whiteout(&root.join("etc/gone")));
    assert!(is_whiteout(&root.join("var/linked")));
    assert!(opaque(&root.join("var")));
    assert_eq!(crate::support::names(&root), ["etc", "var"]);
    assert_eq!(crate::support::names(&root.join("var")), ["linked", "new"]);
}

#[test]
fn whiteout_does_not_hide_entries_of_its_own_layer() {
    let layer = Layer::new()
        .file(".wh.file", b"")
        .file("file", b"new")
        .file("other", b"new")
        .file(".wh.other", b"")
        .file(".wh.first", b"")
        .dir("first")
        .dir("second")
        .file(".wh.second", b"")
        .file(".wh.implied", b"")
        .file("implied/f", b"new");
    let (_world, root) = plain(&layer);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("other")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("implied/f")).unwrap(), b"new");
    for dir in ["first", "second", "implied"] {
        assert!(opaque(&root.join(dir)), "{dir}");
    }
}

#[test]
fn the_later_of_two_entries_wins() {
    let layer = Layer::new()
        .file("d/deep/er/f", b"old")
        .symlink("d", "elsewhere")
        .file("x", b"old and longer")
        .file("x", b"new")
        .symlink("y", "x")
        .dir("y")
        .file("y/f", b"1");
    let (_world, root) = plain(&layer);
    assert!(fs::symlink_metadata(root.join("d")).unwrap().is_symlink());
    assert_eq!(fs::read(root.join("x")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("y/f")).unwrap(), b"1");
}
