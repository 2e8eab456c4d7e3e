//! What is stored of a file beside its content.
//!
//! Names of users and groups are not stored: numbers are what a file has, and a
//! static program cannot query the name service.

use std::ffi::OsStr;
use std::fs::{File, Metadata as Stat};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use base64::Engine as _;
use jiff::Timestamp;
use rustic_core::repofile::{Metadata, Node, NodeType};
use rustix::io::Errno;

/// The modes of the format are Go's: the permissions are ours, the rest has
/// bits of its own.
mod go {
    pub(super) const DIR: u32 = 1 << 31;
    pub(super) const SYMLINK: u32 = 1 << 27;
    pub(super) const DEVICE: u32 = 1 << 26;
    pub(super) const FIFO: u32 = 1 << 25;
    pub(super) const SOCKET: u32 = 1 << 24;
    pub(super) const SETUID: u32 = 1 << 23;
    pub(super) const SETGID: u32 = 1 << 22;
    pub(super) const CHAR: u32 = 1 << 21;
    pub(super) const STICKY: u32 = 1 << 20;
}

/// The node of a file that is there, opened as a place only. `device` is the
/// number that is stored for the file system of a file with more than one
/// name.
pub(super) fn node(file: &File, name: &OsStr, stat: &Stat, device: u64) -> io::Result<Node> {
    let kind = kind(file, stat)?;
    let is_dir = stat.is_dir();
    let mtime = time(stat.mtime(), stat.mtime_nsec());
    let mut meta = Metadata {
        mode: Some(mode_to_go(stat.mode(), &kind)),
        mtime,
        // The time of the last read does not belong in a backup, and would make
        // every tree a new one.
        atime: mtime,
        ctime: time(stat.ctime(), stat.ctime_nsec()),
        uid: Some(stat.uid()),
        gid: Some(stat.gid()),
        inode: stat.ino(),
        device_id: if !is_dir && stat.nlink() > 1 {
            device
        } else {
            0
        },
        size: if stat.is_file() { stat.len() } else { 0 },
        links: if is_dir { 0 } else { stat.nlink() },
        ..Metadata::default()
    };
    add_attributes(&mut meta, attributes(file)?)?;
    Ok(Node::new_node(name, kind, meta))
}

/// The node of a directory that only leads to a source.
pub(super) fn bare_dir(name: &OsStr, at: Timestamp) -> Node {
    let meta = Metadata {
        mode: Some(go::DIR | 0o755),
        mtime: Some(at),
        atime: Some(at),
        ctime: Some(at),
        uid: Some(0),
        gid: Some(0),
        ..Metadata::default()
    };
    Node::new_node(name, NodeType::Dir, meta)
}

fn kind(file: &File, stat: &Stat) -> io::Result<NodeType> {
    let kind = stat.file_type();
    Ok(if kind.is_dir() {
        NodeType::Dir
    } else if kind.is_symlink() {
        let target = rustix::fs::readlinkat(file, "", Vec::new())?;
        NodeType::from_link(Path::new(OsStr::from_bytes(target.as_bytes())))
    } else if kind.is_block_device() {
        NodeType::Dev {
            device: stat.rdev(),
        }
    } else if kind.is_char_device() {
        NodeType::Chardev {
            device: stat.rdev(),
        }
    } else if kind.is_fifo() {
        NodeType::Fifo
    } else if kind.is_socket() {
        NodeType::Socket
    } else {
        NodeType::File
    })
}

fn time(seconds: i64, nanoseconds: i64) -> Option<Timestamp> {
    Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()
}

fn mode_to_go(mode: u32, kind: &NodeType) -> u32 {
    let mut go = mode & 0o777;
    go |= match kind {
        NodeType::Dir => go::DIR,
        NodeType::Symlink { .. } => go::SYMLINK,
        NodeType::Dev { .. } => go::DEVICE,
        NodeType::Chardev { .. } => go::DEVICE | go::CHAR,
        NodeType::Fifo => go::FIFO,
        NodeType::Socket => go::SOCKET,
        NodeType::File => 0,
    };
    for (bit, meaning) in SPECIAL {
        if mode & bit != 0 {
            go |= meaning;
        }
    }
    go
}

/// The permissions of a stored mode, with the special bits.
pub(crate) fn mode_from_go(go: u32) -> u32 {
    let special = SPECIAL.iter().filter(|(_, meaning)| go & meaning != 0);
    special.fold(go & 0o777, |mode, (bit, _)| mode | bit)
}

const SPECIAL: [(u32, u32); 3] = [
    (0o4000, go::SETUID),
    (0o2000, go::SETGID),
    (0o1000, go::STICKY),
];

/// Stores a file's extended attributes in its node. The engine does not name
/// the type of one, so they take the way through their text.
fn add_attributes(meta: &mut Metadata, found: Vec<(String, Vec<u8>)>) -> io::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let texts = found.into_iter().map(|(name, value)| {
        serde_json::json!({ "name": name, "value": base64::prelude::BASE64_STANDARD.encode(value) })
    });
    meta.extended_attributes = serde_json::from_value(texts.collect())?;
    Ok(())
}

fn attributes(file: &File) -> io::Result<Vec<(String, Vec<u8>)>> {
    // Of a place there is no call for this. This leads to the very file, and
    // if that is a link, not through it.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let listed = match whole(|buffer| rustix::fs::listxattr(&path, buffer)) {
        // The file system has none.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut found = Vec::new();
    let names = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    for name in names {
        match whole(|buffer| rustix::fs::getxattr(&path, name, buffer)) {
            Err(Errno::NODATA) => {}
            value => found.push((String::from_utf8_lossy(name).into_owned(), value?)),
        }
    }
    found.sort();
    Ok(found)
}

/// Reads something of unknown size. Most are empty or small.
fn whole(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut small = [0; 512];
    match read(&mut small) {
        Err(Errno::RANGE) => {}
        length => return Ok(small[..length?].to_vec()),
    }
    // The kernel allows no more.
    let mut large = vec![0; 64 << 10];
    let length = read(&mut large)?;
    large.truncate(length);
    Ok(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_come_back_as_they_were() {
        for mode in [0, 0o755, 0o4711, 0o2750, 0o1777, 0o7777] {
            assert_eq!(mode_from_go(mode_to_go(mode, &NodeType::Dir)), mode);
        }
        let device = NodeType::Chardev { device: 0 };
        assert_eq!(
            mode_to_go(0o600, &device) >> 9,
            (go::DEVICE | go::CHAR) >> 9
        );
    }
}
