//! The root of a machine that was booted from an archive in memory. The kernel
//! does not allow exchanging it for another (`pivot_root`), which is how
//! runtimes give containers theirs; so the same directory is mounted over it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use rustix::mount::{UnmountFlags, mount_bind, mount_move, unmount};
use rustix::process::{chdir, chroot};

/// Where the root is on its way over itself. Of the directories that an archive
/// has, none but this is mounted on later anyway.
const NEW_ROOT: &str = "/run";

/// Makes the root one that can be exchanged, if it is not. Nothing but `/proc`
/// is mounted yet, and it is mounted no more afterwards.
pub(super) fn cover() -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    if !is_bare(&mounts) {
        return Ok(());
    }
    unmount("/proc", UnmountFlags::empty())?;
    fs::create_dir_all(NEW_ROOT)?;
    // As the kernel makes it, every user may write to it.
    fs::set_permissions("/", Permissions::from_mode(0o755))?;
    mount_bind("/", NEW_ROOT)?;
    chdir(NEW_ROOT)?;
    mount_move(".", "/")?;
    chroot(".")?;
    Ok(chdir("/")?)
}

/// Whether the root is the kernel's first mount, with nothing over it.
fn is_bare(mounts: &str) -> bool {
    let on_root = |line: &&str| line.split(' ').nth(1) == Some("/");
    let mut roots = mounts.lines().filter(on_root);
    let first = roots.next().is_some_and(|line| line.starts_with("rootfs "));
    first && roots.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_mount_of_the_kernel_is_bare() {
        assert!(is_bare("rootfs / rootfs rw 0 0\nproc /proc proc rw 0 0\n"));
        assert!(!is_bare("rootfs / rootfs rw 0 0\n/dev/vda / ext4 rw 0 0\n"));
        assert!(!is_bare("/dev/vda / ext4 rw 0 0\n"));
        assert!(!is_bare(""));
    }
}
