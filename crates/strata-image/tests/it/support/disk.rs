//! A small disk, in memory.

use std::path::Path;
use std::process::Command;

/// A small disk.
pub struct Disk(tempfile::TempDir);

impl Disk {
    pub fn of(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path())
            .status();
        assert!(mounted.unwrap().success());
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn used(&self) -> u64 {
        let found = rustix::fs::statvfs(self.path()).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .status();
    }
}
