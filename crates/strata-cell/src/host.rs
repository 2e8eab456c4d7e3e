//! Where the kernel's interfaces are found; mounts are read from there. A value, not a constant, so
//! that tests can bring a directory of their own.

use std::path::PathBuf;

/// The roots of the kernel's file interfaces.
#[derive(Clone, Debug)]
pub struct HostPaths {
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
        }
    }
}
