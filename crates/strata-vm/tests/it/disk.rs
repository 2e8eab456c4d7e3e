//! Image files: what is read from them, what is refused, how they are copied.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use strata_types::{Error, ErrorKind};
use strata_vm::{
    DiskError, DiskFormat, check_image, check_overlay, clone_disk, copy_disk, create_disk,
    disk_info,
};
use tempfile::TempDir;

fn dir() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    (dir, move |name: &str| root.join(name))
}

fn raw(path: &Path, size: u64) {
    create_disk(path, DiskFormat::Raw, size).unwrap();
}

#[test]
fn a_clone_names_its_base_and_has_its_size_or_more() {
    let (_dir, at) = dir();
    raw(&at("base"), 10 << 20);
    let base = clone_disk(&at("base"), &at("same"), None).unwrap();
    assert_eq!((base.format, base.size), (DiskFormat::Raw, 10 << 20));
    let info = check_overlay(&at("same"), &at("base")).unwrap();
    assert_eq!((info.format, info.size), (DiskFormat::Qcow2, 10 << 20));
    assert_eq!(info.backing.unwrap().format.as_deref(), Some("raw"));
    clone_disk(&at("base"), &at("larger"), Some(64 << 40)).unwrap();
    let larger = disk_info(&at("larger")).unwrap();
    assert_eq!(larger.size, 64 << 40);
    assert!(larger.allocated < 1 << 20, "{larger:?}");
    let mode = fs::metadata(at("larger")).unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
}

#[test]
fn an_image_that_names_another_file_is_refused() {
    let (_dir, at) = dir();
    raw(&at("secret"), 1 << 20);
    clone_disk(&at("secret"), &at("hostile"), None).unwrap();
    let refused = [
        check_image(&at("hostile")).unwrap_err(),
        clone_disk(&at("hostile"), &at("new"), None).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, DiskError::NamesBacking { .. }), "{error}");
        assert_eq!(Error::from(error).kind(), ErrorKind::Invalid);
    }
    assert!(!at("new").exists() && !at("new.new").exists());
    let error = check_overlay(&at("hostile"), &at("base")).unwrap_err();
    assert!(matches!(error, DiskError::NotItsBase { .. }), "{error}");
    // The bit for "the data is in another file".
    create_disk(&at("outside"), DiskFormat::Qcow2, 1 << 20).unwrap();
    let mut bytes = fs::read(at("outside")).unwrap();
    bytes[79] |= 1 << 2;
    fs::write(at("outside"), bytes).unwrap();
    let error = check_image(&at("outside")).unwrap_err();
    assert!(matches!(error, DiskError::NamesDataFile { .. }), "{error}");
}

#[test]
fn an_image_with_a_broken_header_is_neither_qcow2_nor_raw() {
    let (_dir, at) = dir();
    fs::write(at("torn"), b"QFI\xfb\0\0\0\x03").unwrap();
    let error = check_image(&at("torn")).unwrap_err();
    assert!(error.to_string().contains("header is cut"), "{error}");
}

#[test]
fn disk_that_is_no_regular_file_is_refused_without_blocking() {
    let (_dir, at) = dir();
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), kind, 0o600.into(), 0).unwrap();
    for path in [at("pipe"), at(""), "/dev/zero".into()] {
        let error = check_image(&path).unwrap_err();
        assert!(matches!(error, DiskError::NoFile { .. }), "{error}");
    }
    let error = check_image(&at("nothing")).unwrap_err();
    assert_eq!(Error::from(error).kind(), ErrorKind::NotFound);
}

#[test]
fn sizes_that_no_disk_has_are_refused() {
    let (_dir, at) = dir();
    raw(&at("base"), 1 << 20);
    for size in [0, 1, 513, 65 << 40, u64::MAX] {
        let clone = clone_disk(&at("base"), &at("clone"), Some(size)).unwrap_err();
        assert!(matches!(clone, DiskError::Size { .. }), "{size}: {clone}");
        create_disk(&at("new"), DiskFormat::Raw, size).unwrap_err();
    }
    let error = clone_disk(&at("base"), &at("clone"), Some(512)).unwrap_err();
    assert!(
        matches!(error, DiskError::SmallerThanBase { .. }),
        "{error}"
    );
}

#[test]
fn a_file_that_is_there_is_never_overwritten() {
    let (_dir, at) = dir();
    raw(&at("base"), 1 << 20);
    fs::write(at("mine"), "mine").unwrap();
    for error in [
        clone_disk(&at("base"), &at("mine"), None).map(drop),
        create_disk(&at("mine"), DiskFormat::Raw, 512),
        copy_disk(&at("base"), &at("mine")).map(drop),
    ] {
        let error = Error::from(error.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    }
    assert_eq!(fs::read(at("mine")).unwrap(), b"mine");
    assert!(!at("mine.new").exists());
}

#[test]
fn a_copy_has_the_same_bytes_and_the_same_holes() {
    use std::os::unix::fs::FileExt as _;
    let (_dir, at) = dir();
    raw(&at("base"), 1 << 30);
    let file = fs::File::options().write(true).open(at("base")).unwrap();
    for place in [0, 500 << 20, (1 << 30) - 4] {
        file.write_all_at(b"data", place).unwrap();
    }
    copy_disk(&at("base"), &at("copy")).unwrap();
    let (base, copy) = (
        disk_info(&at("base")).unwrap(),
        disk_info(&at("copy")).unwrap(),
    );
    assert_eq!(base.size, copy.size);
    assert!(copy.allocated < 1 << 20, "{copy:?}");
    let copy = fs::File::open(at("copy")).unwrap();
    for place in [0, 500 << 20, (1 << 30) - 4] {
        let mut bytes = [0; 4];
        copy.read_exact_at(&mut bytes, place).unwrap();
        assert_eq!(&bytes, b"data");
    }
}

#[test]
fn a_copy_to_another_file_system_works_too() {
    let (_dir, at) = dir();
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    fs::write(at("base"), vec![7; 3 << 20]).unwrap();
    let shared = copy_disk(&at("base"), &memory.path().join("copy")).unwrap();
    assert!(!shared);
    assert_eq!(
        fs::read(memory.path().join("copy")).unwrap(),
        vec![7; 3 << 20]
    );
}
