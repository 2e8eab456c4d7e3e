//! Where the kernel's interfaces are mounted. A value, not a constant, so
//! that tests can bring a folder of their own.

use std::path::PathBuf;

/// The roots of the kernel's file interfaces.
#[derive(Clone, Debug)]
pub struct HostPaths {
    /// `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self {
            cgroup: "/sys/fs/cgroup".into(),
            proc: "/proc".into(),
        }
    }
}
