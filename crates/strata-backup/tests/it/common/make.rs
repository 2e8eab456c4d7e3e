//! Makes trees with all that a file system can hold.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// Bytes that look random and are always the same.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Many small files, a few large ones.
pub(crate) fn plain(root: &Path, small: usize, large: usize) {
    fs::create_dir_all(root).expect("a directory");
    for n in 0..small {
        let dir = root.join(format!("d{:02}/e{:02}", n % 17, n % 23));
        fs::create_dir_all(&dir).expect("a directory");
        let length = 100 + (n * 37) % 9000;
        fs::write(dir.join(format!("f{n:05}")), noise(n as u64, length)).expect("a file");
    }
    for n in 0..large {
        let path = root.join(format!("large{n}"));
        fs::write(path, noise(1_000_000 + n as u64, 6 << 20)).expect("a file");
    }
}

/// What is rarely met, and what root alone can make.
pub(crate) fn odd(root: &Path) {
    fs::create_dir_all(root).expect("a directory");
    let file = |name: &OsStr, bytes: &[u8]| fs::write(root.join(name), bytes).expect("a file");
    file(OsStr::from_bytes(b"not\xff\xfeutf8"), b"1");
    file(OsStr::new("two\nlines\tand \"quotes\" \\ back"), b"2");
    file(OsStr::new("ünïcode ☃"), b"3");
    file(OsStr::new("empty"), b"");
    file(OsStr::new("-rf"), b"4");
    file(OsStr::new(&"n".repeat(255)), b"5");

    let modes = [
        ("suid", 0o4755),
        ("sgid", 0o2755),
        ("none", 0o000),
        ("all", 0o777),
    ];
    for (name, mode) in modes {
        file(OsStr::new(name), name.as_bytes());
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    file(OsStr::new("owned"), b"owned");
    std::os::unix::fs::chown(root.join("owned"), Some(1234), Some(4321)).expect("an owner");

    file(OsStr::new("attributes"), b"x");
    let long = noise(7, 2000);
    for (name, value) in [
        ("user.a", &b"plain"[..]),
        ("user.zero", b""),
        ("user.long", &long),
    ] {
        set(&root.join("attributes"), name, value);
    }
    set(&root.join("attributes"), "trusted.t", b"\0\xff");
    fs::create_dir(root.join("folder")).expect("a directory");
    set(&root.join("folder"), "user.f", b"of a directory");

    symlink("folder", root.join("link")).expect("a link");
    symlink("/nowhere/at all", root.join("dangling")).expect("a link");
    symlink(OsStr::from_bytes(b"bad\xfftarget"), root.join("badlink")).expect("a link");
    std::os::unix::fs::lchown(root.join("link"), Some(77), Some(78)).expect("an owner");

    file(OsStr::new("first"), &noise(9, 50_000));
    fs::hard_link(root.join("first"), root.join("folder/second")).expect("a name");
    fs::hard_link(root.join("first"), root.join("third")).expect("a name");

    let sparse = fs::File::create(root.join("sparse")).expect("a file");
    sparse.set_len(64 << 20).expect("a size");
    sparse
        .write_all_at(b"in the middle", 20 << 20)
        .expect("bytes");
    sparse
        .write_all_at(&noise(3, 100_000), 40 << 20)
        .expect("bytes");

    let special = |name: &str, kind, device| {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
        rustix::fs::mknodat(CWD, root.join(name), kind, mode, device).expect("a special file");
    };
    special("fifo", FileType::Fifo, 0);
    special(
        "chardev",
        FileType::CharacterDevice,
        rustix::fs::makedev(1, 3),
    );
    special(
        "blockdev",
        FileType::BlockDevice,
        rustix::fs::makedev(7, 200),
    );
    special("socket", FileType::Socket, 0);

    fs::create_dir_all(root.join("deep/er/and/deep/er")).expect("folders");
    fs::write(root.join("deep/er/and/deep/er/file"), b"deep").expect("a file");
    fs::create_dir(root.join("sticky")).expect("a directory");
    let sticky = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(root.join("sticky"), sticky).expect("a mode");
    fs::create_dir(root.join("locked")).expect("a directory");
    fs::write(root.join("locked/in"), b"in").expect("a file");
    fs::set_permissions(root.join("locked"), fs::Permissions::from_mode(0o000)).expect("a mode");

    for (name, seconds) in [("empty", -5), ("link", 1_000_000_000), ("folder", 86_400)] {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: 123_456_789,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let path = root.join(name);
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
    }
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).expect("an attribute");
}
