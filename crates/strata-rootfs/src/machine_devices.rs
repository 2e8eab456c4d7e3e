//! `/dev` of a nested node: what every pod has, and what it takes to run pods,
//! virtual machines and file systems of its own. Copies of the host's nodes,
//! not the host's directory: what is removed there is still present for others.
//!
//! No disks. Loop devices appear when one is requested from the kernel, on the
//! host alone, so their nodes are made beforehand.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, chmodat, makedev, mkdirat, mknodat};
use rustix::io::Errno;

use crate::devices::devices;
use crate::{Owner, RootError};

/// Passed on where the host has them.
const PASSED_ON: [&str; 9] = [
    "btrfs-control",
    "fuse",
    "kmsg",
    "kvm",
    "loop-control",
    "net/tun",
    "ppp",
    "vhost-net",
    "vhost-vsock",
];
const LOOP_MAJOR: u32 = 7;
const LOOPS: u32 = 128;

/// The `/dev` of a machine, detached; `host` is the host's.
pub fn machine_devices(host: &Path) -> Result<OwnedFd, RootError> {
    let mount = devices(Owner::default())?;
    match mkdirat(&mount, "net", Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(RootError::at("make", Path::new("net"))(errno)),
    }
    let mut has_loops = false;
    for name in PASSED_ON {
        let Ok(node) = fs::metadata(host.join(name)) else {
            continue;
        };
        if node.file_type().is_char_device() {
            has_loops |= name == "loop-control";
            let mode = node.mode() & 0o777;
            make(&mount, name, FileType::CharacterDevice, mode, node.rdev())?;
        }
    }
    if has_loops {
        for number in 0..LOOPS {
            let device = makedev(LOOP_MAJOR, number);
            let name = format!("loop{number}");
            make(&mount, &name, FileType::BlockDevice, 0o660, device)?;
        }
    }
    Ok(mount)
}

fn make(
    mount: &OwnedFd,
    name: &str,
    kind: FileType,
    mode: u32,
    device: u64,
) -> Result<(), RootError> {
    let mode = Mode::from_raw_mode(mode);
    mknodat(mount, name, kind, mode, device)
        .and_then(|()| chmodat(mount, name, mode, AtFlags::empty()))
        .map_err(RootError::at("make the device", Path::new(name)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn nested_node_has_host_devices_without_its_disks() {
        let mount = machine_devices(Path::new("/dev")).unwrap();
        let dir = format!("/proc/self/fd/{}", mount.as_raw_fd());
        let has = |name: &str| Path::new(&dir).join(name).exists();
        assert!(has("null") && has("pts"));
        assert_eq!(has("loop-control"), Path::new("/dev/loop-control").exists());
        assert_eq!(has("loop100"), has("loop-control"));
        assert_eq!(has("net/tun"), Path::new("/dev/net/tun").exists());
        let disks = fs::read_dir(&dir).unwrap().flatten().filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            entry.file_type().unwrap().is_block_device() && !name.starts_with("loop")
        });
        assert_eq!(disks.count(), 0);
    }
}
