//! Where a machine keeps its data (`/var/lib`: that of its node, and of what
//! users run on it): on the first disk whose file system is marked for that,
//! else in memory. A disk without the mark belongs to a user, and is not
//! touched.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount, mount_bind};
use strata_machines::image::DISK_LABEL;

use super::say;

/// Where data is, the node's own in a directory there.
const DATA: &str = "/var/lib";
/// Logs are kept where data is: elsewhere they would fill up the memory.
const LOGS: (&str, &str) = ("/var/lib/log", "/var/log");
/// Where the superblock of ext4 is, and its magic number and label in it.
const SUPERBLOCK: u64 = 1024;
const MAGIC: (usize, [u8; 2]) = (56, [0x53, 0xef]);
const LABEL: std::ops::Range<usize> = 120..136;
/// Half of the machine's memory may become data.
const TMPFS_OPTIONS: &std::ffi::CStr = c"mode=0755,size=50%";

/// Mounts the directory of all data.
pub(super) fn mount_data() {
    let mounted = match ours(Path::new("/sys/block")) {
        Some(disk) => {
            say(&format!("data is on {}", disk.display()));
            mount_at(&disk, "ext4", c"")
        }
        None => {
            say("no data disk found: data is kept in memory and lost on power-off");
            mount_at(Path::new("tmpfs"), "tmpfs", TMPFS_OPTIONS)
        }
    };
    if let Err(error) = mounted {
        say(&format!("cannot mount {DATA}: {error}"));
    }
    let (kept, seen) = LOGS;
    let made = fs::create_dir_all(kept).and_then(|()| fs::create_dir_all(seen));
    if let Err(error) = made.and_then(|()| Ok(mount_bind(kept, seen)?)) {
        say(&format!("cannot keep logs in {kept}: {error}"));
    }
}

fn mount_at(source: &Path, kind: &str, options: &std::ffi::CStr) -> io::Result<()> {
    fs::create_dir_all(DATA)?;
    Ok(mount(source, DATA, kind, MountFlags::NODEV, Some(options))?)
}

/// The first disk with our label, in the order of their names.
fn ours(blocks: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    let mut disks = names.into_iter().map(|name| Path::new("/dev").join(name));
    disks.find(|disk| File::open(disk).is_ok_and(|disk| is_ours(&disk)))
}

fn is_ours(disk: &File) -> bool {
    let mut superblock = [0; LABEL.end];
    if disk.read_exact_at(&mut superblock, SUPERBLOCK).is_err() {
        return false;
    }
    let (at, magic) = MAGIC;
    let label = &superblock[LABEL];
    let label = label.split(|byte| *byte == 0).next().unwrap_or(label);
    superblock[at..at + 2] == magic && label == DISK_LABEL.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_system_with_our_label_is_ours() {
        let file = tempfile::tempfile().unwrap();
        assert!(!is_ours(&file), "nothing at all");
        file.set_len(1 << 20).unwrap();
        assert!(!is_ours(&file), "an empty disk");
        let at = |offset: usize| SUPERBLOCK + u64::try_from(offset).unwrap();
        file.write_all_at(&MAGIC.1, at(MAGIC.0)).unwrap();
        file.write_all_at(b"home", at(LABEL.start)).unwrap();
        assert!(!is_ours(&file), "somebody's");
        file.write_all_at(DISK_LABEL.as_bytes(), at(LABEL.start))
            .unwrap();
        assert!(is_ours(&file));
    }
}
