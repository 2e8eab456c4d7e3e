//! Whether roots of pods can be seen through a user namespace: the kernel has
//! to allow such namespaces and idmapped layers of an overlay, and the file
//! system of the roots has to support idmapped mounts.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

type Version = (u32, u32);

/// Since when an overlay takes idmapped layers.
const FIRST_KERNEL: Version = (5, 19);
/// File systems that support idmapped mounts, as mount tables name them, and
/// since which kernel. Those that did before overlays have the version of
/// overlays.
const FILE_SYSTEMS: [(&str, Version); 8] = [
    ("bcachefs", (6, 15)),
    ("btrfs", FIRST_KERNEL),
    ("erofs", FIRST_KERNEL),
    ("ext4", FIRST_KERNEL),
    ("f2fs", FIRST_KERNEL),
    ("tmpfs", (6, 3)),
    ("xfs", FIRST_KERNEL),
    ("zfs", FIRST_KERNEL),
];

/// Why pods with roots in `directory` cannot have users of their own; nothing
/// where they can.
pub fn lack_of_id_maps(directory: &Path) -> Option<String> {
    let most = fs::read_to_string("/proc/sys/user/max_user_namespaces");
    if most.is_ok_and(|most| most.trim() == "0") {
        return Some("user.max_user_namespaces is 0".to_owned());
    }
    if !Path::new("/proc/self/ns/user").exists() {
        return Some("the kernel has no user namespaces".to_owned());
    }
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let kind = mount_id(directory).and_then(|id| file_system(&table, id));
    let Some(kind) = kind else {
        let directory = directory.display();
        return Some(format!("the file system of {directory} is unknown"));
    };
    match first_kernel(kind) {
        None => Some(format!(
            "{} is on {kind}, which has no idmapped mounts",
            directory.display()
        )),
        Some(first) if kernel_version(&release).is_some_and(|version| version < first) => {
            let (major, minor) = first;
            Some(format!(
                "idmapped layers on {kind} need Linux {major}.{minor}, and this is {release}"
            ))
        }
        Some(_) => None,
    }
}

/// Since when layers of an overlay can be idmapped on such a file system.
fn first_kernel(kind: &str) -> Option<Version> {
    let mut known = FILE_SYSTEMS.iter();
    known
        .find(|(name, _)| *name == kind)
        .map(|(_, first)| *first)
}

fn mount_id(directory: &Path) -> Option<u64> {
    let status = statx(CWD, directory, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    Some(status.stx_mnt_id)
}

/// The type of a mount by its id: what stands behind the dash of its line.
fn file_system(table: &str, id: u64) -> Option<&str> {
    let mut lines = table.lines();
    let line = lines.find(|line| line.split(' ').next() == Some(&id.to_string()))?;
    line.split_once(" - ")?.1.split(' ').next()
}

/// The first two numbers of a kernel's release.
fn kernel_version(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_of_a_mount_is_found_by_its_id() {
        let table = "1 1 0:2 / / rw - rootfs rootfs rw\n\
            21 1 8:1 / /data rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n";
        assert_eq!(file_system(table, 1), Some("rootfs"));
        assert_eq!(file_system(table, 21), Some("ext4"));
        assert_eq!(file_system(table, 2), None);
    }

    #[test]
    fn kernel_release_is_read_up_to_its_second_number() {
        assert_eq!(kernel_version("6.12.48+deb13-cloud"), Some((6, 12)));
        assert_eq!(kernel_version("5.19-rc1"), Some((5, 19)));
        assert_eq!(kernel_version("weird"), None);
        assert!(kernel_version("5.4.0-1") < first_kernel("ext4"));
        assert!(kernel_version("6.1.0-40") < first_kernel("tmpfs"));
        assert!(kernel_version("6.1.0-40") > first_kernel("xfs"));
        assert_eq!(first_kernel("rootfs"), None);
    }

    #[test]
    fn directory_of_this_host_has_a_file_system() {
        let why = lack_of_id_maps(Path::new("/proc")).unwrap_or_default();
        assert!(why.contains("proc"), "{why}");
    }
}
